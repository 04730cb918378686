package edge_test

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/relay"
)

// The packets of a path that is cut are lost. If an edge had used up its tries before it gives the connection up, a
// path that heals would go unnoticed until then.
func TestAPeerIsTriedUntilTheConnectionIsGivenUp(t *testing.T) {
	us, eu := newRegion(t, "us"), newRegion(t, "eu")
	path := relay.NewPath(time.Millisecond, 1<<20, 0)
	t.Cleanup(func() { must(t, path.Close()) })
	across, err := path.Listen(relay.Forth, eu.edge.at.Ingress)
	must(t, err)
	peer := eu.peer()
	peer.Address = across // an IP address
	us.input.Peers, eu.input.Peers = append(us.input.Peers, peer), append(eu.input.Peers, us.peer())
	for _, r := range []*region{us, eu} {
		r.edge.configure(t, r.input)
		r.edge.start(t)
	}
	must(t, path.Cut())
	client := us.issue(t, contract.RoleCoordinator, "0")
	connections := func(what string) float64 {
		return us.edge.metric(t, "envoy_cluster_upstream_cx_"+what, `peer="eu-1"`)
	}
	if conn, err := us.dial(client, eu, eu.part(0)); err == nil {
		conn.Close()
		t.Fatal("a part was reached in a cut")
	}
	if failed, late := connections("connect_fail"), connections("connect_timeout"); failed != 1 || late != 1 {
		t.Errorf("%v connections failed, %v of them because the time was up; want one for this reason", failed, late)
	}
	must(t, path.Heal())
	eventually(t, "the part is reached after the cut", func() bool {
		conn, err := us.dial(client, eu, eu.part(0))
		if err == nil {
			defer conn.Close()
			err = speak(conn, "again\n")
		}
		return err == nil
	})
}
