package transport

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// errOtherManifest is wrapped by the errors about peers whose data centers, rings or binding are not those of this
// process.
var errOtherManifest = errors.New("apply the same manifest in all regions")

// manifestOf returns what all processes of a deployment must have alike. It does not change while a process runs
// (contract.AppliesLive). Without a binding that is left out.
func manifestOf(t *topology.Topology, binding string) (m wire.Manifest) {
	m.DataCenters = digest(func(w io.Writer) {
		for _, dc := range t.DCs {
			fmt.Fprintf(w, "%q ", dc.Name)
		}
	})
	m.Rings = digest(func(w io.Writer) {
		for _, r := range t.Rings {
			fmt.Fprintf(w, "%q: ", r.Name)
			for _, dc := range r.DCs {
				fmt.Fprintf(w, "%q ", t.DCs[dc].Name)
			}
		}
	})
	if binding != "" {
		m.Binding = digest(func(w io.Writer) { fmt.Fprint(w, binding) })
	}
	return m
}

// digest hashes what is written. It is never 0, which stands for what is not known.
func digest(write func(io.Writer)) uint64 {
	h := sha256.New()
	write(h)
	return max(1, binary.BigEndian.Uint64(h.Sum(nil)))
}

// checkManifest returns why a peer has no place in this deployment. One that does not say what it has is of an earlier
// version.
func (g *GRPC) checkManifest(h *wire.Hello) error {
	if g.config.Topology == nil {
		return nil
	}
	different := manifestOf(g.config.Topology(), g.config.Binding).Differences(h.Manifest)
	if len(different) == 0 {
		return nil
	}
	return fmt.Errorf("the peer %q runs %s; %w", h.Process, strings.Join(different, ", "), errOtherManifest)
}
