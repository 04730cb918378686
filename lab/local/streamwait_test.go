package local_test

import (
	"strings"
	"testing"
	"time"
)

// Clients wait for entries at two sidecars of a data center.
func TestClientsWaitForEntries(t *testing.T) {
	r := newWaitRig(t)
	c, far := r.client(0), oneSession(t, r.far)
	awaitCollections(t, c)
	r.do(c, "XADD s 1-1 f a")
	r.do(c, "XGROUP CREATE s g $")

	_, here := r.begin(0, "XREAD BLOCK 0 STREAMS s $")
	_, there := r.begin(1, "XREAD BLOCK 0 STREAMS missing s 0 1-1")
	r.do(c, "XADD s 2-1 f b")
	for _, reply := range []chan string{here, there} {
		r.wants(reply, "2-1")
	}

	r.do(c, "XREADGROUP GROUP g first STREAMS s >")
	_, one := r.begin(0, "XREADGROUP GROUP g one COUNT 1 BLOCK 0 STREAMS s >")
	_, two := r.begin(1, "XREADGROUP GROUP g two COUNT 1 BLOCK 0 STREAMS s >")
	r.do(c, "XADD s 3-1 f c")
	r.wants(one, "3-1")
	r.do(c, "XADD s 4-1 f d")
	r.wants(two, "4-1")

	r.do(far, "GET nothing")
	_, foreign := r.begin(0, "XREAD BLOCK 0 STREAMS other 0")
	r.do(far, "XADD other 7-1 f e")
	r.wants(foreign, "7-1")

	if got := r.do(c, "XREAD BLOCK 50 STREAMS s $"); got != "nil" {
		t.Errorf("nothing is added: %v", got)
	}
	_, gone := r.begin(0, "XREADGROUP GROUP g one BLOCK 0 STREAMS s >")
	r.do(c, "DEL s")
	r.wants(gone, "UNBLOCKED")
}

// wants waits for a reply that has a text.
func (r *waitRig) wants(reply chan string, text string) {
	r.t.Helper()
	select {
	case got := <-reply:
		if !strings.Contains(got, text) {
			r.t.Errorf("%s and not %s", got, text)
		}
	case <-time.After(20 * time.Second):
		r.t.Errorf("no reply; %s was expected", text)
	}
}
