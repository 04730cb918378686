package node

import (
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal/group"
)

func TestTheRegisterIsAcceptedOnlyWhereNothingAcknowledgedIsLost(t *testing.T) {
	frozen := func(r group.Role, change func(*group.Status)) group.Status {
		s := group.Status{Role: r, Frozen: "the register is another one",
			Config: group.Config{Epoch: 7, Primary: group.ID{Name: "1", Volume: 5}}}
		if change != nil {
			change(&s)
		}
		return s
	}
	for _, c := range []struct {
		when  string
		given group.Status
		fails string
	}{
		{"it serves", frozen(group.Serving, nil), ""},
		{"it does not hear of a primary", frozen(group.Electing, nil), ""},
		{"another one serves", frozen(group.Following, nil), "accept the register there"},
		{"it is no member", frozen(group.Outside, nil), "does not have the whole log"},
		{"its disk is damaged", frozen(group.Broken, nil), "does not have the whole log"},
		{"it has changed", frozen(group.Serving, func(s *group.Status) { s.Config.Epoch = 8 }), "look again"},
		{"it is not frozen", frozen(group.Serving, func(s *group.Status) { s.Frozen = "" }), "not frozen"},
		{"another group is there", frozen(group.Serving, func(s *group.Status) {
			s.Foreign = true
		}), "would replace that one"},
	} {
		err := acceptable(&c.given, 7)
		if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v", c.when, err)
		}
	}
}
