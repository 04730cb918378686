package transport

import (
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	// violationLogInterval is how often the violations of one peer and kind are logged.
	violationLogInterval = time.Minute
	// maxViolators bounds the peers, times the kinds of their violations, whose last log line is remembered. Those
	// beyond it share one line for each kind.
	maxViolators = 1024
	otherPeers   = "others"
)

// violationLog logs violations with a limit for each peer and kind: a peer that does one thing often cannot hide that
// it does another one.
type violationLog struct {
	mu    sync.Mutex
	lines map[violationLine]*loggedViolation
}

type violationLine struct {
	who  string
	kind Violation
}

type loggedViolation struct {
	at         time.Time
	suppressed int // since
	last       error
}

// add logs a violation, or counts it for the next line of that peer and kind.
func (v *violationLog) add(kind Violation, who string, err error, now time.Time, log *slog.Logger) {
	if host, _, errAddr := net.SplitHostPort(who); errAddr == nil && !strings.Contains(who, "://") {
		who = host // each attempt comes from another port; an identity is a URI
	}
	v.flush(now, log)
	v.mu.Lock()
	defer v.mu.Unlock()
	key := violationLine{who, kind}
	if v.lines[key] == nil && len(v.lines) >= maxViolators {
		key.who = otherPeers
	}
	if known := v.lines[key]; known != nil {
		known.suppressed++
		known.last = err
		return
	}
	if v.lines == nil {
		v.lines = map[violationLine]*loggedViolation{}
	}
	v.lines[key] = &loggedViolation{at: now}
	logViolation(log, violationLine{who, kind}, err, 0)
}

// flush forgets the lines that are old enough to be logged again. What was counted since is logged now, even if nothing
// follows.
func (v *violationLog) flush(now time.Time, log *slog.Logger) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for key, known := range v.lines {
		switch {
		case now.Sub(known.at) < violationLogInterval:
		case known.suppressed == 0:
			delete(v.lines, key)
		default:
			logViolation(log, key, known.last, known.suppressed-1)
			*known = loggedViolation{at: now}
		}
	}
}

// logViolation logs one, which follows others of the same peer and kind that were not logged.
func logViolation(log *slog.Logger, of violationLine, err error, suppressed int) {
	log.Error("link refused: the peer must not do this", "peer", of.who, "violation", of.kind, "error", err,
		"suppressed", suppressed, "quietFor", violationLogInterval)
}
