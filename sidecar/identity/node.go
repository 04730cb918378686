package identity

import (
	"fmt"
	"strconv"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

var parts = map[contract.Role]topology.Part{
	contract.RoleCoordinator: topology.Coordinator, contract.RoleMiddleman: topology.Middleman,
	contract.RoleCache:   topology.Cache,
	contract.RoleSidecar: topology.Sidecar,
}

// maxIndex bounds the indices of middlemen and caches.
const maxIndex = 1 << 16

// CheckNode returns why a node cannot be at the other end of a link.
func CheckNode(n topology.Node, t *topology.Topology) error {
	switch {
	case int(n.DC) >= len(t.DCs):
		return fmt.Errorf("%v is in a data center that the topology does not have", n)
	case n.Part < topology.Sidecar || n.Part > topology.Cache:
		return fmt.Errorf("%v is not a part of the data plane", n)
	case n.HasGroup() && (n.Member < 1 || n.Member > topology.MaxMembers):
		return fmt.Errorf("%v is no member of its group; members are 1 to %d", n, topology.MaxMembers)
	case !n.HasGroup() && n.Member != 0:
		return fmt.Errorf("%v is a member, and %ss have no groups", n, n.Part)
	case n.Part == topology.Coordinator && n.Index >= topology.MaxCoordinators,
		n.Part != topology.Sidecar && n.Index >= maxIndex:
		return fmt.Errorf("%v has an index that is too large", n) // its origin would be that of another one
	}
	return nil
}

// CheckNodes returns why the owner of an identity may not run nodes: it runs exactly one, that of its role, data center
// and index. The members of a group share the identity of their node, since each of them may come to serve it. Sidecars
// draw their index at each start, so every index is theirs.
func CheckNodes(id contract.Identity, nodes []topology.Node, t *topology.Topology) error {
	part, ok := parts[id.Role]
	if !ok {
		return fmt.Errorf("%s: the role %s takes no part in links", id, id.Role)
	}
	if len(nodes) != 1 {
		return fmt.Errorf("%s speaks for one node, and the process runs %d", id, len(nodes))
	}
	n := nodes[0]
	dc, ok := t.ByName(id.DataCenter)
	if !ok {
		return fmt.Errorf("%s speaks for data center %s, which the topology does not have", id, id.DataCenter)
	}
	if n.Part != part || n.DC != dc || part != topology.Sidecar && strconv.FormatUint(n.Index, 10) != id.Member {
		return fmt.Errorf("%s does not speak for %s %d of data center %s", id, n.Part, n.Index, nameOf(n.DC, t))
	}
	return CheckNode(n, t)
}

// NodeOf returns the node that an identity speaks for; false for roles without a single one.
func NodeOf(id contract.Identity, t *topology.Topology) (topology.Node, bool) {
	part, ok := parts[id.Role]
	dc, known := t.ByName(id.DataCenter)
	index, err := strconv.ParseUint(id.Member, 10, 32)
	if !ok || !known || part == topology.Sidecar || err != nil {
		return topology.Node{}, false
	}
	return topology.Node{DC: dc, Part: part, Index: index}, true
}

func nameOf(dc topology.DC, t *topology.Topology) string {
	if int(dc) < len(t.DCs) {
		return t.DCs[dc].Name
	}
	return fmt.Sprint(dc)
}
