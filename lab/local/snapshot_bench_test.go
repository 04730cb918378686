package local

import (
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

// BenchmarkPageSnapshot measures what the page costs each second: one snapshot.
func BenchmarkPageSnapshot(b *testing.B) {
	for _, dcs := range []int{8, 16} {
		b.Run(fmt.Sprintf("dcs=%d", dcs), func(b *testing.B) {
			f := topology.File{Epoch: 1, Rings: make([]topology.FileRing, 4)}
			for i := range dcs {
				name, ring := fmt.Sprintf("dc-%d", i), &f.Rings[i%4]
				f.DataCenters = append(f.DataCenters, topology.FileDataCenter{Name: name})
				ring.Name, ring.DataCenters = fmt.Sprintf("ring-%d", i%4), append(ring.DataCenters, name)
			}
			t, err := f.Topology()
			if err != nil {
				b.Fatal(err)
			}
			d, err := Start(b.Context(), Options{Topology: t, Engine: "embedded", Scope: node.ScopePod, Cache: true,
				WAN: true, Host: "127.0.0.1", DataDir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			b.ReportAllocs()
			for b.Loop() {
				d.snapshot()
			}
		})
	}
}
