package sim

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// Parts in one process get the very message that was sent, several of them perhaps, and so does who gets it twice: the
// lists in it belong to nobody. One that sorts or shortens a list in place changes what others read.

// keptMessages bounds how many messages of a kind are kept of a run.
const keptMessages = 200

// kept is a message as a machine got it, and what it was encoded as.
type kept struct {
	causal.Message
	was []byte
}

func TestNoPartChangesAMessage(t *testing.T) {
	if raceDetector {
		t.Skip("one goroutine")
	}
	for _, p := range Profiles() {
		if p.run != nil {
			continue
		}
		messages := map[causal.Kind][]kept{}
		rng := rand.New(rand.NewPCG(3, 1))
		pl := p.draw(rng)
		pl.set.Seed = 3
		w := NewWorld(pl.shape.draw(rng), pl.set)
		w.delivered = func(m *causal.Message) {
			if all := messages[m.Kind]; len(all) < keptMessages {
				messages[m.Kind] = append(all, kept{*m, wire.Append(nil, m)})
			}
		}
		pl.start(w, rng)
		w.Run(pl.length, func() bool { return false })
		for k, all := range messages {
			for i := range all {
				if is := wire.Append(nil, &all[i].Message); !bytes.Equal(is, all[i].was) {
					t.Errorf("profile %s: a %s from %v to %v was changed after it was delivered", p.Name, k,
						all[i].From, all[i].To)
					break
				}
			}
		}
	}
}
