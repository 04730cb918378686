package processes_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/e2e/etcdserver"
)

// What a group reports, in /readyz and /metrics, while it is whole, lacks a member, has no register and is frozen; and
// a person lets it go on with an empty etcd in the place of the lost one. Writes go on all the time.
func TestAGroupReportsAndRecovers(t *testing.T) {
	etcd := etcdserver.Start(t)
	d := planDeployment(t, nil, waitForCoordinators)
	d.addMember("a", etcd.Endpoint)
	d.startAll()
	d.awaitWhole(t, "a")
	w := d.writeOften(t, "a", 4)
	defer w.stop()
	w.await(t, 100)
	d.awaitGroup(t, "that is whole", func(g *contract.Group) error {
		if g.IsShort() || g.Problem != "" || g.Primary != g.Member || len(g.Members) != 2 || len(g.Others) != 1 ||
			g.Others[0].State != contract.MemberInStep ||
			g.Others[0].HeardMsAgo == nil || g.Register == nil || g.Register.UnreachableForMs != nil {
			return fmt.Errorf("it says %s", show(g))
		}
		return nil
	})
	first, second := "a-coordinator", "a-coordinator-2"
	if d.serves(second) {
		first, second = second, first
	}
	if n, _ := d.procs[first].metric("causalstore_coordinator_commit_duration_seconds_count{"); n == 0 {
		t.Error("no commit was measured")
	}
	d.kill(second)
	d.awaitGroup(t, "without a member", func(g *contract.Group) error {
		if !g.IsShort() || len(g.Others) != 1 || g.Others[0].State != contract.MemberSilent {
			return fmt.Errorf("it says %s", show(g))
		}
		return nil
	})
	eventually(t, "the metric to say for how long", func() error {
		if v, _ := d.procs[first].metric("causalstore_coordinator_group_under_replicated_seconds{"); v <= 0 {
			return fmt.Errorf("it is %v", v)
		}
		return nil
	})
	d.restart(second)
	d.awaitWhole(t, "a")

	etcd.Kill()
	d.awaitGroup(t, "without a register", func(g *contract.Group) error {
		if g.Register == nil || g.Register.UnreachableForMs == nil || g.Register.AnsweredMsAgo == nil {
			return fmt.Errorf("it says %s", show(g))
		}
		return nil
	})
	w.await(t, 100)
	etcd.Empty()
	etcd.Start()
	d.awaitGroup(t, "that is frozen", func(g *contract.Group) error {
		if g.Problem != contract.GroupFrozen || g.ProblemForMs == nil || g.Reason == "" ||
			g.Register.UnreachableForMs != nil {
			return fmt.Errorf("it says %s", show(g))
		}
		return nil
	})
	w.await(t, 100)
	serving := d.serving("a")
	if out, err := d.program("recover", "--data-dir", d.path(serving)); err != nil ||
		!strings.Contains(out, "frozen: the register is another one") {
		t.Errorf("recover shows: %s, %v", out, err)
	}
	if out, err := d.program("recover", "--data-dir", d.path(serving), "--accept-register"); err == nil ||
		!strings.Contains(out, "nothing was changed") {
		t.Errorf("recover without an answer: %s, %v", out, err)
	}
	follower := "a-coordinator"
	if serving == follower {
		follower = "a-coordinator-2"
	}
	if out, err := d.program("recover", "--data-dir", d.path(follower), "--accept-register", "--yes"); err == nil {
		t.Errorf("a follower lets the group go on: %s", out)
	}
	out, err := d.program("recover", "--data-dir", d.path(serving), "--accept-register", "--yes")
	if err != nil || !strings.Contains(out, "done: epoch") {
		t.Fatalf("recover: %s, %v", out, err)
	}
	d.awaitGroup(t, "that has gone on", func(g *contract.Group) error {
		if g.Problem != "" || g.IsShort() {
			return fmt.Errorf("it says %s", show(g))
		}
		return nil
	})
	d.kill(serving) // a failover needs the register
	w.await(t, 200)
	d.restart(serving)
	d.awaitWhole(t, "a")
}

// All volumes of a group are lost, and a person gives its log up, in so many words. The group starts over with two
// members, what a ring had of the lost log is in all rings, and writes go on. It can be lost again.
func TestAGroupWhoseVolumesAreAllLostIsGivenUp(t *testing.T) {
	etcd := etcdserver.Start(t)
	d := planDeployment(t, nil, waitForCoordinators)
	d.addMember("a", etcd.Endpoint)
	d.startAll()
	d.awaitWhole(t, "a")
	if out, err := d.program("recover", "--data-dir", d.path(d.serving("a")), "--accept-loss", "--confirm",
		"a/0"); err == nil || !strings.Contains(out, "not known to be lost") {
		t.Errorf("a log that is there is given up: %s, %v", out, err)
	}
	for i, value := range []string{"1", "2"} {
		a := d.client("a")
		must(t, a.Set(t.Context(), "k", value, 0).Err())
		awaitComplete(t, a)
		d.loseGroup(t)
		d.giveUp(t, []string{"a-coordinator", "a-coordinator-2"}[i], "a/0") // the first one is preferred
		d.awaitWhole(t, "a")
		awaitValue(t, "b", d.client("b"), "k", value)
	}
	a := d.client("a")
	must(t, a.Set(t.Context(), "k", "3", 0).Err())
	awaitComplete(t, a)
	awaitValue(t, "b", d.client("b"), "k", "3")
}

// loseGroup empties both volumes of the coordinator of a, and waits until its members say that all is lost.
func (d *deployment) loseGroup(t *testing.T) {
	t.Helper()
	members := []string{"a-coordinator", "a-coordinator-2"}
	for _, name := range members {
		d.kill(name)
		must(t, os.RemoveAll(d.path(name)))
	}
	d.start(d.procs[members[0]])
	if out, err := d.program("recover", "--data-dir", d.path(members[0]), "--accept-loss", "--confirm",
		"a/0"); err == nil {
		t.Errorf("a group is given up while a member does not answer: %s", out)
	}
	d.start(d.procs[members[1]])
	for _, name := range members {
		eventually(t, name+" to know that all volumes are lost", func() error {
			r, err := d.procs[name].readiness()
			if err == nil && (r.Ready || r.Group == nil || r.Group.Problem != contract.GroupLost ||
				r.Group.ProblemForMs == nil) {
				err = fmt.Errorf("%+v of %+v", r.Group, r)
			}
			return err
		})
	}
	if v, ok := d.procs[members[0]].metric("causalstore_coordinator_group_lost_seconds{"); !ok || v <= 0 {
		t.Errorf("the metric says that it is lost for %v", v)
	}
	if out, err := d.program("recover", "--data-dir", d.path(members[0]), "--accept-register", "--yes"); err == nil {
		t.Errorf("a lost group is made to go on: %s", out)
	}
}

// giveUp gives up the lost log of a coordinator, and waits until it serves, in two commands. Without its name, nothing
// is changed.
func (d *deployment) giveUp(t *testing.T, process, coordinator string) {
	t.Helper()
	if out, err := d.program("recover", "--data-dir", d.path(process), "--accept-loss"); err == nil ||
		!strings.Contains(out, "nothing was changed") {
		t.Errorf("a log is given up without an answer: %s, %v", out, err)
	}
	if out, err := d.program("recover", "--data-dir", d.path(process)); err != nil ||
		!strings.Contains(out, "--accept-loss") {
		t.Errorf("it is not said what can be done: %s, %v", out, err)
	}
	out, err := d.program("recover", "--data-dir", d.path(process), "--accept-loss", "--confirm", coordinator,
		"--wait", "3s")
	if err == nil || !strings.Contains(out, "accepted\n") || !strings.Contains(out, "it goes on without this command") {
		t.Errorf("recover within 3s: %s, %v", out, err)
	}
	d.expectSalvaging(t, process, 1)
	out, err = d.program("recover", "--data-dir", d.path(process), "--accept-loss", "--confirm", coordinator,
		"--wait", "2m")
	if err != nil || !strings.Contains(out, "the log of coordinator "+coordinator+" was given up before") ||
		!strings.Contains(out, "done: it serves") {
		t.Fatalf("recover: %s, %v", out, err)
	}
	d.expectSalvaging(t, process, 0)
}

func (d *deployment) expectSalvaging(t *testing.T, process string, want float64) {
	t.Helper()
	if v, ok := d.procs[process].metric("causalstore_coordinator_salvaging{"); !ok || v != want {
		t.Errorf("causalstore_coordinator_salvaging of %s is %v, %v", process, v, ok)
	}
}

// program runs a command of the program, without input, and returns what it prints.
func (d *deployment) program(args ...string) (string, error) {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), runAsProgram+"=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func show(g *contract.Group) string {
	b, _ := json.Marshal(g) // it was decoded
	return string(b)
}

// serving returns the process that serves the coordinator of a data center.
func (d *deployment) serving(dc string) string {
	for _, name := range []string{dc + "-coordinator", dc + "-coordinator-2"} {
		if d.serves(name) {
			return name
		}
	}
	return ""
}

// awaitGroup waits until the member that serves the coordinator of a says of its group what ok wants.
func (d *deployment) awaitGroup(t *testing.T, what string, ok func(*contract.Group) error) {
	t.Helper()
	eventually(t, "the report of a group "+what, func() error {
		name := d.serving("a")
		if name == "" {
			return fmt.Errorf("no member serves")
		}
		_, b, err := d.procs[name].get("/readyz")
		if err != nil {
			return err
		}
		var r contract.Readiness
		if err := json.Unmarshal(b, &r); err != nil {
			return err
		}
		if r.Group == nil || r.Group.Role != contract.GroupServing {
			return fmt.Errorf("%s has no group that it serves", name)
		}
		return ok(r.Group)
	})
}
