package local_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Clients of two sidecars count with WATCH. What EXEC has written was not overtaken by another client.
func TestNoWriteOfAWatchedKeyIsLostAmongTheSidecarsOfADataCenter(t *testing.T) {
	d := startExact(t, 2)
	const each = 40
	var all sync.WaitGroup
	for _, addr := range d.Endpoints()[0].Sidecars {
		c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
		defer c.Close()
		all.Go(func() {
			for done := 0; done < each; {
				err := c.Watch(t.Context(), func(tx *redis.Tx) error {
					n, err := tx.Get(t.Context(), "n").Int()
					if err != nil && !errors.Is(err, redis.Nil) {
						return err
					}
					_, err = tx.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
						return p.Set(t.Context(), "n", n+1, 0).Err()
					})
					return err
				}, "n")
				switch {
				case err == nil:
					done++
				case !errors.Is(err, redis.TxFailedErr) && !strings.HasPrefix(err.Error(), "CONFLICT"):
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	c := redis.NewClient(&redis.Options{Addr: d.Endpoints()[0].RESP})
	defer c.Close()
	if n, err := c.Get(t.Context(), "n").Int(); n != 2*each || err != nil {
		t.Errorf("%d increments gave %d, %v", 2*each, n, err)
	}
}
