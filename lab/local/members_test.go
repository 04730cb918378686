package local_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/register"
	"github.com/causalstore/causalstore/topology"
)

// membersEnv makes the test of lost members lose each one of the eight data centers, which takes a minute.
const membersEnv = "CAUSALSTORE_E2E_ALL_MEMBERS"

func TestNoClientNoticesThatMembersAreLost(t *testing.T) {
	for _, losses := range []memberLosses{{"coordinator", 2}, {"coordinator", 3}, {"middleman", 2}, {"middleman", 3}} {
		t.Run(fmt.Sprintf("%s members=%d", losses.part, losses.members), func(t *testing.T) {
			res, h, report := underLoadWith(t, losses.length(),
				local.Options{Scope: node.ScopeConnection, Cache: true, Members: losses.members}, losses.inflict)
			if !report.OK() {
				keep(t, h, report)
			}
			if res.Ops < 100 || res.Unknown > 0 || res.Failed > 0 {
				t.Errorf("%d operations succeeded, %d failed and of %d the outcome is unknown: %v", res.Ops, res.Failed,
					res.Unknown, res.Errors)
			}
			if !res.Final.Settled() {
				t.Errorf("data centers disagree on %d of %d keys and are behind on %d", res.Final.Disagree,
					res.Final.Keys, res.Final.Behind)
			}
		})
	}
}

// While the register is away, groups go on as they are.
func TestGroupsGoOnWithoutTheirRegister(t *testing.T) {
	memory := register.NewMemory()
	away := func(d *local.Deployment, _ *rand.Rand, length time.Duration) <-chan harmed {
		done := make(chan harmed, 1)
		memory.SetFault(register.Away)
		time.AfterFunc(length, func() {
			memory.SetFault(register.NoFault)
			done <- harmed{}
		})
		return done
	}
	res, h, report := underLoadWith(t, e2eLength(t),
		local.Options{Scope: node.ScopeConnection, Cache: true, Members: 2, Register: memory}, away)
	if !report.OK() {
		keep(t, h, report)
	}
	if res.Ops < 100 || res.Unknown > 0 || res.Failed > 0 {
		t.Errorf("%d operations succeeded, %d failed and of %d the outcome is unknown: %v", res.Ops, res.Failed,
			res.Unknown, res.Errors)
	}
}

// memberLosses makes each member of a part crash in turn, of all indices at once; every second one also loses its
// folders.
type memberLosses struct {
	part    string
	members int
}

// dataCenters returns those whose members are lost.
func (memberLosses) dataCenters() []string {
	if os.Getenv(membersEnv) == "" {
		return []string{"us-east-1"}
	}
	var all []string
	for _, dc := range topology.Default().DCs {
		all = append(all, dc.Name)
	}
	return all
}

// length is longer than the losses take on a slow machine.
func (m memberLosses) length() time.Duration {
	return time.Duration(len(m.dataCenters())*m.members) * 3 * time.Second
}

func (m memberLosses) inflict(d *local.Deployment, _ *rand.Rand, _ time.Duration) <-chan harmed {
	done := make(chan harmed, 1)
	go func() {
		var h harmed
		for i, dc := range m.dataCenters() {
			for member := range m.members {
				h.err = errors.Join(h.err, m.lose(d, &h, dc, uint8(member+1), (i+member)%2 == 1))
			}
		}
		done <- h
	}()
	return done
}

// lose stops a member of each group of a data center for a while, and waits until all groups are whole again.
func (m memberLosses) lose(d *local.Deployment, h *harmed, dc string, member uint8, wipe bool) error {
	ctx := context.Background()
	f := local.Fault{DC: dc, Part: m.part, Member: member}
	kinds := []string{"crash", "restart"}
	if wipe {
		kinds = []string{"crash", "wipe", "restart"}
	}
	for _, f.Kind = range kinds {
		if f.Kind == "restart" {
			time.Sleep(1800 * time.Millisecond) // the fault: longer than a failover takes
		}
		h.faults = append(h.faults, fmt.Sprintf("%s of %s member %d of %s", f.Kind, m.part, member, dc))
		if err := d.Inject(ctx, f); err != nil {
			return err
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		problem := m.missing(d, dc)
		if problem == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New(problem)
		}
	}
}

// missing says which group of a data center lacks a member.
func (m memberLosses) missing(d *local.Deployment, dc string) string {
	isWhole := func(up bool, g local.GroupState) bool {
		in := 0
		for _, s := range g.Members {
			if s.InGroup {
				in++
			}
		}
		return up && in == m.members
	}
	st := d.State()
	for _, o := range st.Origins {
		if o.DC == dc && !isWhole(o.Up, o.Group) {
			return fmt.Sprintf("the group of origin %d is not whole again: %+v", o.Origin, o.Group)
		}
	}
	for _, s := range st.DataCenters {
		for _, mm := range s.Middlemen {
			if s.Name == dc && !isWhole(mm.Up, *mm.Group) {
				return fmt.Sprintf("the group of shard %d is not whole again: %+v", mm.Shard, *mm.Group)
			}
		}
	}
	return ""
}
