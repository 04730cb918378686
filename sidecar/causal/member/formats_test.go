package member

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// PROTOCOL FMT-3.
func TestAGroupReadsWhatAllOfItsMembersRead(t *testing.T) {
	r := newRig(t, 3)
	for _, p := range r.members {
		p.c.formats.reads = 2
	}
	primary := r.primary()
	last := r.members[2]
	if last == primary {
		last = r.members[1]
	}
	last.c.formats.reads = 1
	reads := func(f causal.Format) func() bool {
		return func() bool { return primary.c.membersRead(r.now).Reads == f }
	}
	if got := primary.c.membersRead(r.now); got.Reads != 0 || got.Heard {
		t.Errorf("before the others have answered it says %+v", got)
	}
	r.await("all members to answer", reads(1))
	if got := primary.c.membersRead(r.now); got.Lacking != last.c.self || !got.Heard {
		t.Errorf("it says %+v", got)
	}
	last.c.formats.reads = 2
	r.await("the last member to be asked again", reads(2))
	last.cut = true
	r.await("the answer of a member that is away not to count any more", reads(0))
}
