package local_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// Clients at two sidecars of a data center set bits of one string, count in a field of another one, and take the
// members of two sorted sets. Each bit is set, each count is one of its own, and each member is taken once.
func TestBitmapsAreExactInADataCenter(t *testing.T) {
	const clients, each = 6, 40
	d := startExact(t, 2)
	ctx, ports := t.Context(), d.Endpoints()[0].Sidecars
	first := oneSession(t, ports[0])
	for i := range clients * each {
		if err := first.Do(ctx, "GEOADD", fmt.Sprintf("places%d", i%2), i%90, i%80, i).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	counts, taken := map[int64]int{}, map[string]int{}
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			c := oneSession(t, ports[n%len(ports)])
			for i := range each {
				p := c.Pipeline()
				set := p.SetBit(ctx, "bits", int64(i*clients+n), 1)
				sum := p.BitField(ctx, "fields", "INCRBY", "u16", "#3", 1)
				other := p.SetBit(ctx, fmt.Sprintf("own%d", n), int64(i), 1)
				_, err := p.Exec(ctx)
				if err != nil || set.Val() != 0 || other.Val() != 0 || len(sum.Val()) != 1 {
					t.Errorf("%v: %v, %v, %v", err, set, other, sum)
					return
				}
				_, popped, err := c.ZMPop(ctx, "min", 1, "places0", "places1").Result()
				if err != nil || len(popped) != 1 {
					t.Errorf("ZMPOP: %v, %v", popped, err)
					return
				}
				mu.Lock()
				counts[sum.Val()[0]]++
				taken[fmt.Sprint(popped[0].Member)]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(counts) != clients*each || len(taken) != clients*each {
		t.Errorf("%d different counts, %d members; want %d", len(counts), len(taken), clients*each)
	}
	for _, port := range ports {
		c := oneSession(t, port)
		if n, err := c.BitCount(ctx, "bits", nil).Result(); err != nil || n != clients*each {
			t.Errorf("%d bits are set, %v; want %d", n, err, clients*each)
		}
		got, err := c.BitField(ctx, "fields", "GET", "u16", "#3").Result()
		if err != nil || !slices.Equal(got, []int64{clients * each}) {
			t.Errorf("the field has %v, %v; want %d", got, err, clients*each)
		}
	}
}
