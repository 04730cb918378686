package processes_test

import (
	"errors"
	"testing"

	"github.com/causalstore/causalstore/contract"
)

// A near copy answers a stock client's reads of a hot key, which then do not reach the cache, until the key is written
// elsewhere.
func TestReadsOfHotKeysStayInTheSidecarUntilTheKeyIsWritten(t *testing.T) {
	certs := newCertificates(t)
	ca := certs.authority("eu", "eu.example.com")
	certs.issueAll(ca)
	certs.trust(ca)
	d := deployWith(t, certs, func(c *contract.Config) {
		waitLong(c)
		c.NearCopies.MaxBytes = new(contract.Bytes(1 << 20))
	})
	ctx, sidecar, cache := t.Context(), d.procs["a-sidecar"], d.procs["a-cache"]
	reader, writer := d.client("a"), d.client("c")
	near := func() float64 {
		n, ok := sidecar.metric(`causalstore_sidecar_reads_total{data_center="a",ring="one",source="near"}`)
		if !ok {
			t.Fatal("the sidecar does not report the reads of near copies")
		}
		return n
	}
	for _, value := range []string{"1", "2"} {
		must(t, writer.Set(ctx, "hot", value, 0).Err())
		// Nobody can read an older value any more.
		must(t, writer.Do(ctx, "CAUSAL", "WAIT", "ALL", patience.Milliseconds()).Err())
		before := near()
		eventually(t, "a read is answered by a near copy", func() error {
			for range 20 {
				if got := reader.Get(ctx, "hot").Val(); got != value {
					t.Fatalf("GET hot: %q, want %q", got, value)
				}
			}
			if near() == before {
				return errors.New("none yet")
			}
			return nil
		})
	}
	for _, m := range []struct {
		of   *proc
		name string
	}{{sidecar, "causalstore_sidecar_near_copies_inserted_total"},
		{sidecar, "causalstore_sidecar_near_copies_invalidated_total"},
		{cache, "causalstore_cache_near_copies_total"}, {cache, "causalstore_cache_near_copies_invalidated_total"}} {
		if n, ok := m.of.metric(m.name); !ok || n == 0 {
			t.Errorf("%s of %s is %v, reported: %t", m.name, m.of.name, n, ok)
		}
	}
	reads := func() (near, other float64) {
		for _, source := range []string{"own", "cache", "local", "remote"} {
			n, _ := sidecar.metric(`causalstore_sidecar_reads_total{data_center="a",ring="one",source="` +
				source + `"}`)
			other += n
		}
		near, _ = sidecar.metric(`causalstore_sidecar_reads_total{data_center="a",ring="one",source="near"}`)
		return near, other
	}
	// Nobody writes now. The lease may end while the machine is busy, so not every read has to be a hit, but a run of
	// 50 must come.
	eventually(t, "50 reads in a row do not leave the sidecar", func() error {
		near, other := reads()
		for range 50 {
			must(t, reader.Get(ctx, "hot").Err())
		}
		if n, o := reads(); n-near != 50 || o != other {
			return errors.New("some have left it")
		}
		return nil
	})
}
