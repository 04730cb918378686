//go:build linux

package wan

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/florianl/go-nfqueue/v2"
)

// maxHeld is how many packets are in flight in one direction; further ones are dropped. Most are 64 kB under load,
// because the kernel splits them only later.
const maxHeld = 32768

// Queue holds the packets of one direction, which the kernel hands over through an NFQUEUE.
type Queue struct {
	nfq *nfqueue.Nfqueue

	mu    sync.Mutex
	pacer pacer
	held  []packet // in the order in which they arrive
	stats Stats
	// wake is sent to when the first packet is held.
	wake chan struct{}
}

// Stats counts what a link did.
type Stats struct {
	Packets, Bytes, Dropped int64
	Held                    int
}

type packet struct {
	id      uint32
	arrival time.Time
}

// Open takes over an NFQUEUE of this network namespace. Packets that a firewall rule puts there then take the link.
func Open(ctx context.Context, number uint16, link Link) (*Queue, error) {
	nfq, err := nfqueue.Open(&nfqueue.Config{NfQueue: number, MaxQueueLen: maxHeld, Copymode: nfqueue.NfQnlCopyPacket,
		MaxPacketLen: 1,
		Flags:        nfqueue.NfQaCfgFlagGSO})
	if err != nil {
		return nil, fmt.Errorf("open NFQUEUE %d: %w", number, err)
	}
	// A burst must not overflow the socket. If it does, its packets are lost, as in a router.
	if err := nfq.Con.SetReadBuffer(64 << 20); err != nil {
		return nil, fmt.Errorf("enlarge the buffer of NFQUEUE %d: %w", number, err)
	}
	q := &Queue{nfq: nfq, pacer: pacer{link: link}, wake: make(chan struct{}, 1)}
	err = nfq.RegisterWithErrorFunc(ctx, q.receive, func(err error) int {
		if ctx.Err() != nil {
			return 1
		}
		fmt.Fprintf(os.Stderr, "wan: queue %d: %v\n", number, err)
		return 0
	})
	if err != nil {
		return nil, fmt.Errorf("take over NFQUEUE %d: %w", number, err)
	}
	go q.release(ctx)
	return q, nil
}

// Set changes how the link treats packets from now on.
func (q *Queue) Set(l Link) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pacer.link = l
}

// Stats returns what the link did so far.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Held = len(q.held)
	return s
}

// receive takes a packet from the kernel.
func (q *Queue) receive(a nfqueue.Attribute) int {
	size := int64(1)
	if a.CapLen != nil { // the packet was longer than what is copied
		size = int64(*a.CapLen)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	arrival, ok := q.pacer.admit(time.Now(), size)
	if !ok {
		q.stats.Dropped++
		if err := q.nfq.SetVerdict(*a.PacketID, nfqueue.NfDrop); err != nil {
			fmt.Fprintln(os.Stderr, "wan: drop a packet:", err)
		}
		return 0
	}
	q.stats.Packets++
	q.stats.Bytes += size
	q.held = append(q.held, packet{*a.PacketID, arrival})
	if len(q.held) == 1 {
		select {
		case q.wake <- struct{}{}:
		default: // it wakes anyway
		}
	}
	return 0
}

// release hands packets back to the kernel when they arrive.
func (q *Queue) release(ctx context.Context) {
	for {
		wait := q.releaseDue()
		if wait > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		}
	}
}

// releaseDue hands back the packets that are due, and returns how long the next one has to wait, or 0 if there is none.
func (q *Queue) releaseDue() time.Duration {
	q.mu.Lock()
	now, due := time.Now(), 0
	for due < len(q.held) && !q.held[due].arrival.After(now) {
		due++
	}
	var last uint32
	if due > 0 {
		last = q.held[due-1].id
		q.held = q.held[due:]
	}
	wait := time.Duration(0)
	if len(q.held) > 0 {
		wait = q.held[0].arrival.Sub(now)
	}
	q.mu.Unlock()
	if due > 0 { // one verdict for all up to the last; those between that were dropped have theirs
		if err := q.nfq.SetVerdictBatch(last, nfqueue.NfAccept); err != nil {
			fmt.Fprintln(os.Stderr, "wan: release packets:", err)
		}
	}
	return wait
}
