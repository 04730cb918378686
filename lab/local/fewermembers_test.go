package local_test

import (
	"context"
	"fmt"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/topology"
)

// A data directory whose coordinators had several members can be used with one, and with several again, and nothing is
// lost.
func TestADataDirectoryGoesBackToOneMemberAndToSeveralAgain(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	written := 0
	for _, members := range []int{2, 1, 2} {
		d, err := local.Start(ctx, local.Options{Topology: topology.Default(), Engine: "embedded", DataDir: dir,
			Cache: true, Members: members, Host: "127.0.0.1"})
		if err != nil {
			t.Fatalf("with %d members: %v", members, err)
		}
		c := goredis.NewClient(&goredis.Options{Addr: d.Endpoints()[0].RESP, Protocol: 2})
		for i := range written {
			if got, err := c.Get(ctx, fmt.Sprint("k", i)).Result(); err != nil || got != fmt.Sprint("v", i) {
				t.Errorf("with %d members: k%d is %q, %v", members, i, got, err)
			}
		}
		for range 20 {
			if err := c.Set(ctx, fmt.Sprint("k", written), fmt.Sprint("v", written), 0).Err(); err != nil {
				t.Fatalf("with %d members: %v", members, err)
			}
			written++
		}
		for _, o := range d.State().Origins {
			if len(o.Group.Members) != members {
				t.Errorf("with %d members: %+v", members, o.Group)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
