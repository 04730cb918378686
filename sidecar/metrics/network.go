package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/transport"
)

var (
	networkFamily = &family{subsystem: "transport"}

	networkSent = networkFamily.counter("messages_sent_total",
		"Messages passed to a link or to a part in this process.", "kind")
	networkReceived = networkFamily.counter("messages_received_total", "Messages delivered to a part in this process.",
		"kind")
	networkDropped = networkFamily.counter("messages_dropped_total",
		"Messages that were not sent or not delivered. The protocol retransmits those it needs.", "kind", "reason")
	networkFrames = networkFamily.counter("frames_total", "Frames on links to other processes.", "direction")
	networkBytes  = networkFamily.counter("bytes_total", "Bytes in frames on links to other processes.", "direction")
	networkOpened = networkFamily.counter("links_opened_total", "Links to other processes that were established.")
	networkFailed = networkFamily.counter("links_failed_total",
		"Links to other processes that broke, were refused or could not be established.")
	networkLinks   = networkFamily.gauge("links", "Links to other processes.", "direction", "state")
	networkQueued  = networkFamily.gauge("queued_bytes", "Bytes queued for sending, on all links together.")
	networkRefused = networkFamily.counter("duplicates_refused_total",
		"Links that were refused because another process, which is alive, runs as the same part.")
	networkIsDup = networkFamily.gauge("duplicate_identity",
		"1 while peers refuse this process because another one runs as the same part, else 0.")
	networkViolate = networkFamily.counter("violations_total",
		"What peers did that they may not: it cost them the link.", "kind")
	networkEpochs = networkFamily.gauge("links_of_other_epoch",
		"Established links to processes with another topology epoch.")
)

// Network collects the metrics of a network. epoch returns the epoch of the topology in use here.
func Network(stats func() transport.Stats, epoch func() uint64) prometheus.Collector {
	return collector{networkFamily, func(emit emitFunc) {
		s := stats()
		for _, m := range s.Messages {
			emit(networkSent, float64(m.Sent), m.Kind.String())
			emit(networkReceived, float64(m.Received), m.Kind.String())
		}
		for _, d := range s.Drops {
			emit(networkDropped, float64(d.Count), d.Kind.String(), d.Reason.String())
		}
		emit(networkFrames, float64(s.FramesSent), "sent")
		emit(networkFrames, float64(s.FramesReceived), "received")
		emit(networkBytes, float64(s.BytesSent), "sent")
		emit(networkBytes, float64(s.BytesReceived), "received")
		emit(networkOpened, float64(s.Opened))
		emit(networkFailed, float64(s.Failed))
		emit(networkRefused, float64(s.RefusedDuplicates))
		emit(networkIsDup, float64(boolIndex(s.IsDuplicate)))
		for v, n := range s.Violations {
			emit(networkViolate, float64(n), transport.Violation(v).String())
		}
		emitLinks(emit, s.Links, epoch())
	}}
}

func emitLinks(emit emitFunc, links []transport.LinkStats, epoch uint64) {
	var count [2][2]int // dialed, up
	queued, other := 0, 0
	for _, l := range links {
		count[boolIndex(l.Dialed)][boolIndex(l.Up)]++
		queued += l.QueuedBytes
		if l.Up && l.TopologyEpoch != epoch {
			other++
		}
	}
	for dialed, direction := range []string{"accepted", "dialed"} {
		for up, state := range []string{"down", "up"} {
			emit(networkLinks, float64(count[dialed][up]), direction, state)
		}
	}
	emit(networkQueued, float64(queued))
	emit(networkEpochs, float64(other))
}

func boolIndex(b bool) int {
	if b {
		return 1
	}
	return 0
}
