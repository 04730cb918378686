package process

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// addresses are those of the nodes of a topology.
type addresses struct {
	of map[topology.Node]string
	// via holds the egress (contract.Addresses.Via) through which an address is dialed, if there is one.
	via map[string]string
}

// with returns these addresses and those of next, which come first.
func (a addresses) with(next addresses) addresses {
	both := addresses{maps.Clone(a.of), maps.Clone(a.via)}
	maps.Copy(both.of, next.of)
	maps.Copy(both.via, next.via)
	return both
}

// checkAddresses checks that every node of the topology has one address of its own, and returns them.
func checkAddresses(t *topology.Topology, all map[string]contract.Addresses, p *problems) addresses {
	addrs, owner, via := map[topology.Node]string{}, map[string]topology.Node{}, map[string]string{}
	for name := range all {
		if _, ok := t.ByName(name); !ok {
			p.add("addresses."+name, "the topology has no such data center; it has %s",
				strings.Join(dataCenterNames(t), ", "))
		}
	}
	for i, dc := range t.DCs {
		a := all[dc.Name]
		for _, part := range []struct {
			name    string
			part    topology.Part
			addrs   []string
			want    int
			members int
		}{
			{"coordinators", topology.Coordinator, a.Coordinators, dc.RunningCoordinators(),
				dc.Members(topology.Coordinator)},
			{"middlemen", topology.Middleman, a.Middlemen, dc.RunningMiddlemen(), dc.Members(topology.Middleman)},
			{"caches", topology.Cache, a.Caches, dc.Caches, 1},
		} {
			field := fmt.Sprintf("addresses.%s.%s", dc.Name, part.name)
			if len(part.addrs) != part.want*part.members {
				addCountProblem(p, field, len(part.addrs), part.want, part.members)
				continue
			}
			for j, addr := range part.addrs {
				n := topology.Node{DC: topology.DC(i), Part: part.part, Index: uint64(j / part.members)}
				if n.HasGroup() {
					n.Member = uint8(j%part.members + 1)
				}
				if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
					p.add(fmt.Sprintf("%s[%d]", field, j), "%q is not host:port", addr)
				} else if other, taken := owner[addr]; taken {
					p.add(fmt.Sprintf("%s[%d]", field, j),
						"%s is the address of %s of %s as well; each process needs one of its own", addr,
						describeNode(other), t.DCs[other.DC].Name)
				}
				addrs[n], owner[addr] = addr, n
				if a.Via != "" {
					via[addr] = a.Via
				}
			}
		}
	}
	return addresses{addrs, via}
}

func addCountProblem(p *problems, field string, given, nodes, members int) {
	if members == 1 {
		p.add(field, "%d given, but the topology has %d; give one address for each, in the order of their indices",
			given, nodes)
		return
	}
	p.add(field,
		"%d given, but the topology has %d with %d members each, %d in all; give one address for each member: those "+
			"of the members of index 0 in their order, then those of index 1, and so on",
		given, nodes, members, nodes*members)
}

// describeNode names a node, and the member of its group if that is not the first one.
func describeNode(n topology.Node) string {
	if n.Member > 1 {
		return fmt.Sprintf("%s %d, member %d,", n.Part, n.Index, n.Member)
	}
	return fmt.Sprintf("%s %d", n.Part, n.Index)
}

// checkVia checks what an egress needs.
func (s *Settings) checkVia(p *problems) {
	for name, a := range s.Config.Addresses {
		field := "addresses." + name + ".via"
		host, _, err := net.SplitHostPort(a.Via)
		switch {
		case a.Via == "":
			continue
		case err != nil || host == "":
			p.add(field, "%q is not host:port", a.Via)
		case s.Config.TLS == nil:
			p.add(field, "given without tls: an egress finds a part by its TLS server name; give tls, or leave via out")
		case name == s.Config.DataCenter:
			p.add(field, "%s is the data center of this process, whose parts are dialed directly; leave via out", name)
		}
		for _, addr := range slices.Concat(a.Coordinators, a.Middlemen, a.Caches) {
			host, _, err := net.SplitHostPort(addr)
			if _, notIP := netip.ParseAddr(host); err == nil && notIP == nil {
				p.add(field,
					"the address %s has no name, by which the egress could find the part; give names such as %s", addr,
					contract.PartAddress(contract.RoleCoordinator, 0, name, "STORE-ID"))
				break
			}
		}
	}
}

// addressBook maps nodes, and the members of those with a group, to their present addresses. It is asked for every
// message, and replaced as a whole.
type addressBook struct{ current atomic.Pointer[addresses] }

func newAddressBook(addrs addresses) *addressBook {
	b := &addressBook{}
	b.replace(addrs)
	return b
}

func (b *addressBook) replace(addrs addresses) {
	next := addresses{maps.Clone(addrs.of), maps.Clone(addrs.via)}
	if old := b.current.Load(); old != nil { // links to nodes that are removed may be open for a while
		given := map[string]bool{}
		for _, addr := range next.of {
			given[addr] = true
		}
		for addr, via := range old.via {
			if !given[addr] {
				next.via[addr] = via
			}
		}
	}
	b.current.Store(&next)
}

// viaOf returns the egress through which an address is dialed, or "".
func (b *addressBook) viaOf(addr string) string { return b.current.Load().via[addr] }

// addressOf returns the address of a node without a group, or of a member.
func (b *addressBook) addressOf(n topology.Node) (string, bool) {
	addr, ok := b.current.Load().of[n]
	return addr, ok
}
