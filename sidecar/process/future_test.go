package process

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/ports"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/embedded"
	"github.com/causalstore/causalstore/topology"
)

func TestAMessageForgedWithATimestampYearsAheadIsRefused(t *testing.T) {
	grpc, dir := ports.ForTest(t), t.TempDir()
	used, err := embedded.Open(dir, embedded.Options{})
	markUsed(t, used, err)
	p := newPeer(t, grpc)
	addr, ended, stop := run(t, good, topology.Middleman, func(c *contract.Config) {
		p.configure(c, grpc)
		c.Storage = contract.Storage{Engine: contract.EngineEmbedded, Embedded: contract.EmbeddedStorage{Dir: dir}}
	})
	await(t, "the middleman to be ready", func() bool { status, _ := readiness(addr); return status == http.StatusOK })
	key := keyOfFirstShard(t)
	// a coordinator may be 10 s ahead of its clock
	far, now := time.Now().AddDate(30, 0, 0), time.Now().Add(9*time.Second)
	var forged causal.Version
	await(t, "the forged message to be refused", func() bool {
		forged = p.put(key, "forged", far)
		return metricOf(addr, "causalstore_middleman_clock_refused_total") > 0
	})
	v := p.put(key, "right", now)
	await(t, "an ordinary write to be acknowledged", func() bool { return p.hasAck(v) })
	if p.hasAck(forged) {
		t.Error("the forged message was acknowledged")
	}
	if r := p.get(t, key); r.Err != causal.OK || string(r.Record.Value.Data) != "right" {
		t.Errorf("read %+v", r)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestValuesFromTheFutureAreDroppedOnRequest(t *testing.T) {
	dir, key := t.TempDir(), keyOfFirstShard(t)
	store, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	at := func(when time.Time) causal.Record {
		return causal.Record{Version: causal.Version{HLC: causal.HLCAt(when.UnixMilli()), Origin: 1},
			Value: causal.Value{Data: []byte("v")}}
	}
	writes := []storage.Write{{Key: key, Record: at(time.Now().AddDate(30, 0, 0))},
		{Key: "other", Record: at(time.Now())}}
	if err := store.Apply(t.Context(), writes); err != nil {
		t.Fatal(err)
	}
	markUsed(t, store, nil)
	grpc := ports.ForTest(t)
	p := newPeer(t, grpc)
	addr, ended, stop := runWith(t, good, topology.Middleman,
		Options{Logger: slog.New(slog.DiscardHandler), DropFutureVersions: true}, func(c *contract.Config) {
			p.configure(c, grpc)
			c.Storage = contract.Storage{Engine: contract.EngineEmbedded, Embedded: contract.EmbeddedStorage{Dir: dir}}
		})
	await(t, "the middleman to be ready", func() bool { status, _ := readiness(addr); return status == http.StatusOK })
	now := time.Now()
	await(t, "the key to be written again", func() bool { return p.hasAck(p.put(key, "again", now)) })
	if r := p.get(t, key); r.Err != causal.OK || string(r.Record.Value.Data) != "again" {
		t.Errorf("read %+v", r)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	store, err = embedded.Open(dir, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, found, err := store.Get(t.Context(), "other"); !found || err != nil {
		t.Errorf("a value of today was dropped: %v, %v", found, err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// Else: one copy differs from the others, and the number of keys is wrong.
func TestAMemberOfAShardDropsNoValuesOnRequest(t *testing.T) {
	for name, text := range map[string]string{"of two": twoShardMembers, "of one now": good} {
		t.Run(name, func(t *testing.T) {
			dir, data, key := t.TempDir(), t.TempDir(), keyOfFirstShard(t)
			store, err := embedded.Open(dir, embedded.Options{})
			if err != nil {
				t.Fatal(err)
			}
			rec := causal.Record{Version: causal.Version{HLC: causal.HLCAt(time.Now().AddDate(30, 0, 0).UnixMilli()),
				Origin: 1}}
			marker := member.Applied{Group: 1, Volume: 1}
			err = errors.Join(store.Apply(t.Context(), []storage.Write{{Key: key, Record: rec}}),
				store.SetMeta(t.Context(), "applied", marker.AppendTo(nil)))
			markUsed(t, store, err)
			_, ended, stop := runWith(t, text, topology.Middleman,
				Options{Logger: slog.New(slog.DiscardHandler), DropFutureVersions: true}, func(c *contract.Config) {
					if eu := c.Addresses["eu"]; text == twoShardMembers {
						eu.Middlemen = []string{"10.3.1.1:1", "10.3.1.2:1", "10.3.2.1:1", "10.3.2.2:1"}
						c.Addresses["eu"] = eu
					}
					c.DataDir = data
					c.Storage = contract.Storage{Engine: contract.EngineEmbedded,
						Embedded: contract.EmbeddedStorage{Dir: dir}}
				})
			defer stop()
			select {
			case err := <-ended:
				if err == nil || !strings.Contains(err.Error(), "--drop-future-versions") {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("it runs")
			}
			if store, err = embedded.Open(dir, embedded.Options{}); err != nil {
				t.Fatal(err)
			}
			if _, found, err := store.Get(t.Context(), key); !found || err != nil {
				t.Errorf("the value was dropped: %v", err)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
