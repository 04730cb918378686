package kubectl

import (
	"errors"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/contract"
)

func TestTheMemberThatServesDecidesForAGroupOrElseTheOneWithTheHighestEpoch(t *testing.T) {
	of := func(pod string, index, member int, role contract.GroupRole, epoch uint64) groupReport {
		return groupReport{pod: pod, report: contract.Readiness{Index: index, Membership: contract.MembershipJoining,
			Group: &contract.Group{Member: member, Role: role, Epoch: epoch, Wanted: []int{1, 2}, Members: []int{1, 2},
				Problem: contract.GroupFrozen}}}
	}
	alone := groupReport{pod: "alone", report: contract.Readiness{Shards: contract.ReshardingNone}}
	away := groupReport{pod: "away", err: errors.New("no route")}
	for _, c := range []struct {
		when    string
		reports []groupReport
		decide  bool
		pod     string
		fails   string
	}{
		{"one serves", []groupReport{of("a", 0, 1, contract.GroupFollowing, 9),
			of("b", 0, 2, contract.GroupServing, 8)}, true, "b", ""},
		{"one serves and the other is away", []groupReport{away, of("b", 0, 2, contract.GroupServing, 8)},
			true, "b", ""},
		{"none serves", []groupReport{of("a", 0, 1, contract.GroupElecting, 8),
			of("b", 0, 2, contract.GroupElecting, 9)}, true, "b", ""},
		{"none serves and one is away", []groupReport{of("a", 0, 1, contract.GroupElecting, 8), away}, true, "",
			"away (no route)"},
		{"the same, to look only", []groupReport{of("a", 0, 1, contract.GroupElecting, 8), away}, false, "a", ""},
		{"it is another coordinator", []groupReport{of("a", 1, 1, contract.GroupServing, 8)}, true, "",
			"no pod runs a member"},
		{"it is a shard without a log", []groupReport{alone}, true, "", "no pod runs a member"},
		{"nobody answers", []groupReport{away}, true, "", "answers: away (no route)"},
	} {
		pod, err := chooseMember(c.reports, recoverFlags{}.part(), "dc", 0, c.decide, false)
		if pod != c.pod || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %q, %v", c.when, pod, err)
		}
	}
}

func TestALogIsGivenUpAtAMemberThatRuns(t *testing.T) {
	alone := groupReport{pod: "alone",
		report: contract.Readiness{Part: "coordinator", Membership: contract.MembershipLogLost}}
	member := groupReport{pod: "m", report: contract.Readiness{Membership: contract.MembershipJoining,
		Group: &contract.Group{Member: 1, Role: contract.GroupOutside, Epoch: 3, Wanted: []int{1, 2},
			Members: []int{1, 2}, Problem: contract.GroupLost}}}
	for _, c := range []struct {
		reports []groupReport
		pod     string
	}{{[]groupReport{alone}, "alone"}, {[]groupReport{{pod: "away", err: errors.New("no route")}, member}, "m"},
		{[]groupReport{{pod: "away", err: errors.New("no route")}}, ""}} {
		if pod, err := chooseMember(c.reports, recoverFlags{}.part(), "dc", 0, false, true); pod != c.pod ||
			(err == nil) != (c.pod != "") {
			t.Errorf("%v: %q, %v", c.reports, pod, err)
		}
	}
	got := strings.Join((&cluster{}).execArguments("shop", "p", recoverFlags{loss: true, confirm: "us-east-1/0"}), " ")
	if want := "--data-dir /data --accept-loss --confirm us-east-1/0"; !strings.HasSuffix(got, want) {
		t.Errorf("kubectl %s\nwant ...%s", got, want)
	}
}

func TestADecisionIsMadeByTheProgramInThePodOfTheMember(t *testing.T) {
	c := &cluster{context: "us", kubeconfig: "file"}
	if got, want := strings.Join(c.execArguments("shop", "orders-cc-0", recoverFlags{accept: true, yes: true}), " "),
		"exec --stdin orders-cc-0 --namespace shop --container coordinator --kubeconfig file --context us -- "+
			"/causalstore recover --data-dir /data --accept-register --yes"; got != want {
		t.Errorf("kubectl %s\nwant    %s", got, want)
	}
	if got, want := strings.Join((&cluster{}).execArguments("shop", "orders-shard-1-0", recoverFlags{shard: true}),
		" "),
		"exec --stdin orders-shard-1-0 --namespace shop --container middleman -- /causalstore recover "+
			"--data-dir /log"; got != want {
		t.Errorf("kubectl %s\nwant    %s", got, want)
	}
	if got := strings.Join((&cluster{}).execArguments("shop", "p", recoverFlags{}), " "); strings.Contains(got,
		"accept") || strings.Contains(got, "yes") {
		t.Errorf("to look only: %s", got)
	}
}
