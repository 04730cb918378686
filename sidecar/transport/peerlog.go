package transport

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	// peerLogInterval is how often the events of one peer and kind are logged.
	peerLogInterval = time.Minute
	// maxLoggedPeers bounds the peers, times the kinds of their events, whose last log line is remembered. Those beyond
	// it share one line for each kind.
	maxLoggedPeers = 1024
	otherPeers     = "others"
	// acceptedLines is how many links of one peer are logged in an interval: the sidecars of a namespace are one peer.
	acceptedLines = 20
)

// peerLog logs what peers make happen, with a limit for each peer and kind: a peer that does one thing often cannot
// hide that it does another one, and cannot fill a disk.
type peerLog struct {
	// burst is how many lines of a peer and kind are logged in an interval.
	burst int

	mu    sync.Mutex
	lines map[peerLine]*loggedEvent
}

// peerLine is what shares a limit.
type peerLine struct {
	level         slog.Level
	message, kind string
	who           string
}

type loggedEvent struct {
	since              time.Time
	logged, suppressed int
	last               []any // the attributes of the last one
}

// add logs an event, or counts it for the next line of that peer and kind. who is the identity of the peer, or its
// address.
func (l *peerLog) add(line peerLine, attributes []any, now time.Time, log *slog.Logger) {
	if host, _, errAddr := net.SplitHostPort(line.who); errAddr == nil && !strings.Contains(line.who, "://") {
		line.who = host // each attempt comes from another port; an identity is a URI
	}
	l.flush(now, log)
	l.mu.Lock()
	defer l.mu.Unlock()
	key := line
	if l.lines[key] == nil && len(l.lines) >= maxLoggedPeers {
		key.who = otherPeers
	}
	known := l.lines[key]
	switch {
	case known == nil:
		if l.lines == nil {
			l.lines = map[peerLine]*loggedEvent{}
		}
		l.lines[key] = &loggedEvent{since: now, logged: 1}
	case known.logged < l.burst:
		known.logged++
	default:
		known.suppressed++
		known.last = attributes
		return
	}
	line.log(log, attributes, 0)
}

// flush forgets the lines that are old enough to be logged again. What was counted since is logged now, even if nothing
// follows.
func (l *peerLog) flush(now time.Time, log *slog.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, known := range l.lines {
		switch {
		case now.Sub(known.since) < peerLogInterval:
		case known.suppressed == 0:
			delete(l.lines, key)
		default:
			key.log(log, known.last, known.suppressed-1)
			*known = loggedEvent{since: now, logged: l.burst}
		}
	}
}

// log logs an event, which follows others of the same peer and kind that were not logged.
func (line peerLine) log(log *slog.Logger, attributes []any, suppressed int) {
	attributes = append([]any{"peer", line.who}, attributes...)
	attributes = append(attributes, "suppressed", suppressed, "quietFor", peerLogInterval)
	log.Log(context.Background(), line.level, line.message, attributes...)
}
