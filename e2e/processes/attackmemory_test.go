package processes_test

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// deployForAttacks starts a deployment with certificates, whose processes have 512 MiB.
func deployForAttacks(t *testing.T) *deployment {
	t.Helper()
	certs := newCertificates(t)
	ca := certs.authority("eu", "eu.example.com")
	certs.issueAll(ca)
	certs.trust(ca)
	d := planDeployment(t, certs, waitLong)
	for _, p := range d.procs {
		p.env = []string{"GOMEMLIMIT=512MiB"}
	}
	d.startAll()
	return d
}

// emptyRecords is a frame of messages with records of which each takes two bytes.
func emptyRecords(messages, each int) (frame []byte) {
	body := protowire.AppendVarint([]byte{1 << 3}, uint64(causal.KindPing))
	body = append(body, bytes.Repeat([]byte{0xd2, 1, 0}, each)...)
	for range messages {
		frame = protowire.AppendBytes(append(frame, 2<<3|2), body)
	}
	return frame
}

// The certificate of a sidecar suffices for this.
func TestFramesThatTakeManyTimesTheirSizeTakeABoundedAmountOfMemory(t *testing.T) {
	const limitMiB = 200
	d := deployForAttacks(t)
	p, addr := d.procs["a-middleman"], d.config.Addresses["a"].Middlemen[0]
	a := d.attackerAs("a", topology.Node{Part: topology.Sidecar}, "sidecar")
	attack := func(links, times int, frame []byte) {
		t.Helper()
		p.forgetPeak(t)
		var attackers sync.WaitGroup
		for i := range links {
			attackers.Go(func() {
				l, err := a.dial(addr, topology.Node{Part: topology.Sidecar, Index: uint64(100 + i)}, 7)
				if err != nil {
					t.Error(err)
					return
				}
				defer l.close()
				for range times {
					if l.stream.SendMsg(frame) != nil {
						return
					}
				}
				l.isOpen(time.Second)
			})
		}
		attackers.Wait()
		if peak := p.peakMiB(t); peak > limitMiB {
			t.Errorf("%d frames of %d bytes on %d links took %d MiB", times, len(frame), links, peak)
		} else {
			t.Logf("%d frames of %d bytes on %d links: at most %d MiB", times, len(frame), links, peak)
		}
	}
	attack(2, 1, emptyRecords(6, 1<<20))
	attack(60, 20, bytes.Repeat([]byte{2<<3 | 2, 0}, 1<<16))
	attack(60, 20, bytes.Repeat([]byte{2<<3 | 2, 0}, 1<<12))
	c := d.client("a")
	must(t, c.Set(t.Context(), "x", "1", 0).Err())
	awaitValue(t, "c", d.client("c"), "x", "1")
}
