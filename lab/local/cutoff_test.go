package local_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

// A read has 5 s. In a data center that knows that it is cut off, one of what is elsewhere ends before a wait of 3 s
// that has begun before.
func TestReadsInADataCenterThatIsCutOffDoNotWaitForTheirTimeOut(t *testing.T) {
	d := start(t, local.Options{Scope: node.ScopeConnection})
	const dc = "ap-northeast-1"
	ctx, addr := t.Context(), endpoint(t, d, dc)
	reader, writer := oneSession(t, addr), oneSession(t, addr)
	topo, remote := topology.Default(), ""
	here, _ := topo.ByName(dc)
	for i := 0; remote == ""; i++ {
		if key := fmt.Sprint("k", i); topo.Owner(topo.RingOf(here), topology.SlotOf(key)).DC != here {
			remote = key
		}
	}
	if err := d.Inject(ctx, local.Fault{Kind: "cut", From: dc, To: "*"}); err != nil {
		t.Fatal(err)
	}
	if err := writer.Set(ctx, "incomplete", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		waited := make(chan struct{})
		go func() {
			defer close(waited)
			_ = writer.Do(ctx, "CAUSAL", "WAIT", "all", 3000).Err() // it is not in all rings while the cut lasts
		}()
		if err := reader.Get(ctx, remote).Err(); err == nil || !strings.HasPrefix(err.Error(), "UNAVAILABLE") {
			t.Fatalf("%s is elsewhere, and its read is answered %v", remote, err)
		}
		select {
		case <-waited: // the read took longer
		default:
			<-waited
			return
		}
	}
	t.Fatal("every read takes longer than a wait of 3 s")
}
