package process

import (
	"fmt"
	"maps"
	"net"
	"strings"
	"sync/atomic"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// checkAddresses checks that every node of the topology has one address of its own, and returns them.
func checkAddresses(t *topology.Topology, all map[string]contract.Addresses, p *problems) map[topology.Node]string {
	addrs, owner := map[topology.Node]string{}, map[string]topology.Node{}
	for name := range all {
		if _, ok := t.ByName(name); !ok {
			p.add("addresses."+name, "the topology has no such data centre; it has %s", strings.Join(dataCenterNames(t), ", "))
		}
	}
	for i, dc := range t.DCs {
		a := all[dc.Name]
		for _, part := range []struct {
			name  string
			part  topology.Part
			addrs []string
			want  int
		}{
			{"coordinators", topology.Coordinator, a.Coordinators, dc.RunningCoordinators()},
			{"middlemen", topology.Middleman, a.Middlemen, dc.RunningMiddlemen()},
			{"caches", topology.Cache, a.Caches, dc.Caches},
		} {
			field := fmt.Sprintf("addresses.%s.%s", dc.Name, part.name)
			if len(part.addrs) != part.want {
				p.add(field, "%d given, but the topology has %d; give one address for each, in the order of their indices", len(part.addrs),
					part.want)
				continue
			}
			for j, addr := range part.addrs {
				n := topology.Node{DC: topology.DC(i), Part: part.part, Index: uint64(j)}
				if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
					p.add(fmt.Sprintf("%s[%d]", field, j), "%q is not host:port", addr)
				} else if other, taken := owner[addr]; taken {
					p.add(fmt.Sprintf("%s[%d]", field, j), "%s is the address of %s %d of %s as well; each process needs one of its own", addr,
						other.Part, other.Index, t.DCs[other.DC].Name)
				}
				addrs[n], owner[addr] = addr, n
			}
		}
	}
	return addrs
}

// addressBook maps nodes to their present addresses, and back. It is asked for every message, and replaced as a whole.
type addressBook struct{ current atomic.Pointer[addressTable] }

type addressTable struct {
	addrs map[topology.Node]string
	nodes map[string]topology.Node
}

func newAddressBook(addrs map[topology.Node]string) *addressBook {
	b := &addressBook{}
	b.replace(addrs)
	return b
}

func (b *addressBook) replace(addrs map[topology.Node]string) {
	next := &addressTable{addrs: maps.Clone(addrs), nodes: make(map[string]topology.Node, len(addrs))}
	if old := b.current.Load(); old != nil { // links to nodes that are removed may be open for a while
		for addr, n := range old.nodes {
			if _, known := addrs[n]; !known {
				next.nodes[addr] = n
			}
		}
	}
	for n, addr := range addrs {
		next.nodes[addr] = n
	}
	b.current.Store(next)
}

// addressOf returns the address of a node.
func (b *addressBook) addressOf(n topology.Node) (string, bool) {
	addr, ok := b.current.Load().addrs[n]
	return addr, ok
}

// nodeAt returns the node at an address, or the last that was there and has no other address.
func (b *addressBook) nodeAt(addr string) (topology.Node, bool) {
	n, ok := b.current.Load().nodes[addr]
	return n, ok
}
