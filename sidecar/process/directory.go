package process

import (
	"fmt"
	"maps"
	"net"
	"strings"
	"sync/atomic"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// directory checks that every node of the topology has one address.
func directory(t *topology.Topology, all map[string]Addresses, f *faults) map[topology.Node]string {
	dir, at := map[topology.Node]string{}, map[string]topology.Node{}
	for name := range all {
		if _, ok := t.ByName(name); !ok {
			f.add("addresses."+name, "the topology has no such data centre; it has %s", strings.Join(names(t), ", "))
		}
	}
	for i, dc := range t.DCs {
		a := all[dc.Name]
		for _, p := range []struct {
			name  string
			part  topology.Part
			addrs []string
			want  int
		}{
			{"coordinators", topology.Coordinator, a.Coordinators, dc.Writers()},
			{"middlemen", topology.Middleman, a.Middlemen, dc.Middlemen()},
			{"caches", topology.Cache, a.Caches, dc.Caches},
		} {
			field := fmt.Sprintf("addresses.%s.%s", dc.Name, p.name)
			if len(p.addrs) != p.want {
				f.add(field, "%d given, but the topology has %d; give one address for each, in the order of their indices", len(p.addrs), p.want)
				continue
			}
			for j, addr := range p.addrs {
				n := topology.Node{DC: topology.DC(i), Part: p.part, Index: uint64(j)}
				if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
					f.add(fmt.Sprintf("%s[%d]", field, j), "%q is not host:port", addr)
				} else if other, taken := at[addr]; taken {
					f.add(fmt.Sprintf("%s[%d]", field, j), "%s is the address of %s %d of %s as well; each process needs one of its own", addr, other.Part, other.Index, t.DCs[other.DC].Name)
				}
				dir[n], at[addr] = addr, n
			}
		}
	}
	return dir
}

// book is where nodes are, as of now. It is asked at every Send, and replaced as a whole.
type book struct{ pages atomic.Pointer[pages] }

type pages struct {
	addrs map[topology.Node]string
	nodes map[string]topology.Node
	moved map[topology.Node]bool
}

func newBook(addrs map[topology.Node]string) *book {
	b := &book{}
	b.replace(addrs)
	return b
}

func (b *book) replace(addrs map[topology.Node]string) {
	p := &pages{addrs: maps.Clone(addrs), nodes: make(map[string]topology.Node, len(addrs)), moved: map[topology.Node]bool{}}
	if was := b.pages.Load(); was != nil {
		p.moved = maps.Clone(was.moved)
		for n, addr := range was.addrs {
			if is, ok := addrs[n]; ok && is != addr {
				p.moved[n] = true
			}
		}
	}
	for n, addr := range addrs {
		p.nodes[addr] = n
	}
	b.pages.Store(p)
}

func (b *book) resolve(n topology.Node) (string, bool) {
	addr, ok := b.pages.Load().addrs[n]
	return addr, ok
}

// moved reports whether a node had another address before.
func (b *book) moved(n topology.Node) bool { return b.pages.Load().moved[n] }

// at returns the node at an address.
func (b *book) at(addr string) (topology.Node, bool) {
	n, ok := b.pages.Load().nodes[addr]
	return n, ok
}
