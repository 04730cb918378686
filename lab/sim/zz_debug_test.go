package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/causalstore/causalstore/lab/history"
	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestZZDebug(t *testing.T) {
	seed, _ := strconv.ParseUint(os.Getenv("ZSEED"), 10, 64)
	key := os.Getenv("ZKEY")
	from, _ := strconv.ParseFloat(os.Getenv("ZFROM"), 64)
	to, _ := strconv.ParseFloat(os.Getenv("ZTO"), 64)
	p, _ := ProfileNamed("exclusions")
	runWith(p, seed, causal.Faults{}, &history.Checker{}, func(w *World) {
		for r, ring := range w.topo.Rings {
			fmt.Println("ring", r, ring.DCs)
		}
		fmt.Println(w.settings.ExclusionDelay, w.settings.Snapshot)
		var last string
		w.delivered = func(m *causal.Message) {
			at := float64(w.now) / 1e6
			x := fmt.Sprint(causal.ExclusionsOf(w.topo))
			if x != last {
				last = x
				fmt.Println(at, "TOPOLOGY", x)
			}
			if m.Kind == causal.KindLaneHello || m.Kind == causal.KindLaneSync && m.LaneSync().Round > 0 {
				if h := m.LaneHello(); m.Kind == causal.KindLaneHello && h.Lost {
					fmt.Println(at, m.From, "->", m.To, "lost hello", h.Incarnation, h.Round, m.Exclusions())
				}
			}
			if at > from && at < to && m.ConcernsKey(key) && m.Kind != causal.KindPutAck {
				fmt.Println(at, m.Kind, m.From, "->", m.To, m.Exclusions(), m.Fields().Record.Version, m.Fields().Status, m.Fields().Err, "ring", m.Fields().Ring)
			}
		}
	})
}
