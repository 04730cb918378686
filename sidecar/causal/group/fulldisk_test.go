package group

import (
	"testing"
	"time"
)

// Else: writes that are in flight wait as long as for a disk that hangs and may go on, and clients give them up.
func TestAPrimaryWithAFullDiskIsReplacedSooner(t *testing.T) {
	for _, test := range []struct {
		name   string
		full   bool
		silent bool
	}{{"a disk that does not respond may be slow", false, false}, {"a full disk has answered", true, true}} {
		t.Run(test.name, func(t *testing.T) {
			b := pq(t)
			p := b.members["p"]
			b.appendUnsynced(p, "x")
			if test.full {
				p.g.NoteFullDisk()
			}
			now := b.now
			now.Mono += int64(p.g.opts.SilentAfter) - 1
			if p.g.isStuck(now) {
				t.Error("it keeps silent before others are missed")
			}
			now.Mono += int64(time.Millisecond)
			if got := p.g.isStuck(now); got != test.silent {
				t.Errorf("after %s it keeps silent: %v", p.g.opts.SilentAfter, got)
			}
			b.sync("p") // there is space again
			if p.g.isStuck(now) || p.g.diskIsFull {
				t.Error("it keeps silent after its disk has made progress")
			}
		})
	}
}
