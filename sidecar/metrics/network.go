package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/transport"
)

var (
	networkFamily = &family{subsystem: "transport"}

	networkSent     = networkFamily.counter("messages_sent_total", "Messages handed to a link or to a part in this process.", "kind")
	networkReceived = networkFamily.counter("messages_received_total", "Messages handed to a part in this process.", "kind")
	networkDropped  = networkFamily.counter("messages_dropped_total", "Messages that were not sent or not handed over; the protocol sends again what matters.", "kind", "reason")
	networkFrames   = networkFamily.counter("frames_total", "Frames on links to other processes.", "direction")
	networkBytes    = networkFamily.counter("bytes_total", "Bytes in frames on links to other processes.", "direction")
	networkOpened   = networkFamily.counter("links_opened_total", "Links to other processes that came up.")
	networkFailed   = networkFamily.counter("links_failed_total", "Links to other processes that broke, were refused or could not be opened.")
	networkLinks    = networkFamily.gauge("links", "Links to other processes.", "direction", "state")
	networkQueued   = networkFamily.gauge("queued_bytes", "Bytes that wait to be sent, on all links together.")
	networkEpochs   = networkFamily.gauge("links_of_other_epoch", "Links that are up to processes with another topology epoch.")
)

// Network shows a network. Epoch returns that of the topology in use here.
func Network(stats func() transport.Stats, epoch func() uint64) prometheus.Collector {
	return scrape{networkFamily, func(show emit) {
		s := stats()
		for _, m := range s.Messages {
			show(networkSent, float64(m.Sent), m.Kind.String())
			show(networkReceived, float64(m.Received), m.Kind.String())
		}
		for _, d := range s.Drops {
			show(networkDropped, float64(d.Count), d.Kind.String(), d.Reason.String())
		}
		show(networkFrames, float64(s.FramesSent), "sent")
		show(networkFrames, float64(s.FramesReceived), "received")
		show(networkBytes, float64(s.BytesSent), "sent")
		show(networkBytes, float64(s.BytesReceived), "received")
		show(networkOpened, float64(s.Opened))
		show(networkFailed, float64(s.Failed))
		showLinks(show, s.Links, epoch())
	}}
}

func showLinks(show emit, links []transport.LinkStats, epoch uint64) {
	var count [2][2]int // dialed, up
	queued, other := 0, 0
	for _, l := range links {
		count[index(l.Dialed)][index(l.Up)]++
		queued += l.QueuedBytes
		if l.Up && l.TopologyEpoch != epoch {
			other++
		}
	}
	for dialed, direction := range []string{"accepted", "dialed"} {
		for up, state := range []string{"down", "up"} {
			show(networkLinks, float64(count[dialed][up]), direction, state)
		}
	}
	show(networkQueued, float64(queued))
	show(networkEpochs, float64(other))
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}
