package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/scrub"
	"github.com/causalstore/causalstore/topology"
)

// shardHost runs a shard: node.Middleman alone, or node.ShardMember with others.
type shardHost interface {
	node.Host
	Handle(batch []causal.Message)
	LinkUp(n topology.Node)
	SetTopology(t *topology.Topology) error
	Inspect(f func(*middleman.Middleman))
	DataLost() (lost bool, known []topology.Node)
	Unanswered() []topology.Node
	Unheard() []topology.Node
	Withdrawn() (w shard.Withdrawn, ok bool)
	Resharding() (stage string, copied, of int)
	StorageState() (failures uint64, problem error)
}

// middlemanPart is a middleman: alone with its storage, or a member of its group, which may not serve now.
type middlemanPart struct {
	m      shardHost
	alone  *node.Middleman // nil with a group
	member *memberPart     // nil without
	self   topology.Node   // a member of its group
	store  storage.Store
	topo   func() *topology.Topology
	log    *slog.Logger

	mu         sync.Mutex
	storageErr error         // why the storage cannot be used now
	done       chan struct{} // ends watchStorage
	ended      chan struct{}
}

func (p *process) startMiddleman(ctx context.Context) (part, error) {
	store, err := p.awaitStore(ctx)
	if err != nil {
		return nil, err
	}
	if err := identityOf(p.topo(), p.self).claimStore(ctx, store); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	isMember, err := node.IsOfGroup(ctx, store)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	isMember = isMember || p.o.Settings.isReplicated()
	if p.o.DropFutureVersions {
		if err := p.dropFutureVersions(ctx, store, isMember); err != nil {
			return nil, errors.Join(err, store.Close())
		}
	}
	m := &middlemanPart{self: p.self, store: store, topo: p.topo, log: p.log, done: make(chan struct{}),
		ended: make(chan struct{})}
	if err := p.startShard(ctx, m, isMember); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	p.metrics.MustRegister(metrics.Middleman(func() metrics.Shard { return m.m }))
	scrubbing := scrub.New(store, scrub.Defaults(p.log))
	p.metrics.MustRegister(metrics.Scrub(scrubbing.Progress))
	scrub := sync.OnceFunc(func() { go scrubbing.Run(ctx) }) // it ends when the store is closed, at the latest
	go m.watchStorage(p.fail, func() { p.spareDamaged(store) }, func() {
		p.removeDamaged(store)
		scrub()
	})
	return m, nil
}

// startShard starts the host of m: a member of a group if there are several, or if the storage is that of one.
func (p *process) startShard(ctx context.Context, m *middlemanPart, isMember bool) (err error) {
	config := middleman.DefaultConfig(p.topo(), p.self.Group())
	config.Broken, config.OwnerOf = brokenRules(), p.net.OwnerOf
	if b := p.o.Settings.Config.Limits.HistoryBytes; b > 0 {
		config.MaxHistoryBytes = int(b)
	}
	o := node.MiddlemanOptions{Config: config, Clock: p.clock, Net: p.net, Store: m.store,
		ReplyBytes:  replyBytes(p.o.Settings.Config.Limits),
		InlineReads: p.o.Settings.Config.Storage.Engine == contract.EngineEmbedded, Logger: p.log, OnFailure: p.fail}
	if isMember {
		return p.startMember(ctx, m, o)
	}
	if m.alone, err = node.NewMiddleman(ctx, o); err != nil {
		return err
	}
	m.m = m.alone
	p.net.SetLeadership(m.alone.Leadership())
	return nil
}

// replyBytes returns the bound of the replies that wait to be sent: what is configured, or an eighth of the memory
// limit of the Go runtime, in bounds.
func replyBytes(l contract.Limits) int64 {
	if l.ReplyBytes > 0 {
		return int64(l.ReplyBytes)
	}
	return max(contract.MinReplyBytes, min(256<<20, debug.SetMemoryLimit(-1)/8))
}

const (
	// pingInterval is how often the storage is pinged, and pingTimeout how long it may take to answer.
	pingInterval = time.Second
	pingTimeout  = 2 * time.Second
)

// watchStorage pings the storage until close. It ends the process when another middleman has taken the storage over.
// It calls begun when the shard has begun to serve, or to get back what it has lost, and whole when it has all data.
func (m *middlemanPart) watchStorage(fail func(error), begun, whole func()) {
	defer close(m.ended)
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	var refused middleman.Stats
	isWhole, hasBegun := false, false
	refusals := rate.Sometimes{First: 1, Interval: 10 * time.Second}
	for {
		select {
		case <-m.done:
			return
		case <-tick.C:
		}
		lost, _ := m.m.DataLost()
		if _, withdrawn := m.m.Withdrawn(); !hasBegun && !withdrawn {
			hasBegun = true
			begun()
		}
		switch {
		case lost:
			isWhole = false
		case !isWhole && m.ready() == nil:
			isWhole = true
			whole()
		}
		refusals.Do(func() { refused = m.logClockRefusals(refused) })
		ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
		err := m.store.Ping(ctx)
		cancel()
		if errors.Is(err, storage.ErrRestarted) { // the server answers again: see there
			err = nil
		}
		m.mu.Lock()
		m.storageErr = err
		m.mu.Unlock()
		if m.alone == nil { // a member of a group does the rest itself
			continue
		}
		if errors.Is(err, storage.ErrDataLost) {
			m.alone.ReportDataLoss(err)
		}
		if err != nil {
			m.alone.NoteStorageFailure(err)
		}
		if errors.Is(err, storage.ErrFenced) {
			fail(err)
		}
	}
}

// logClockRefusals logs that writes were refused since the last call, and returns the counters now.
func (m *middlemanPart) logClockRefusals(before middleman.Stats) (now middleman.Stats) {
	m.m.Inspect(func(mm *middleman.Middleman) { now = mm.Stats() })
	if now.ClockRefused > before.ClockRefused {
		m.log.Warn(
			"refused writes with a timestamp too far ahead of the clock here; compare the clocks of the two machines",
			"writes", now.ClockRefused-before.ClockRefused, "aheadSeconds",
			(now.LastRefused.HLC.WallMs()-time.Now().UnixMilli())/1000,
			"version", now.LastRefused, "sender", now.RefusedFrom)
	}
	return now
}

// setTopology also records the epoch in the store, so that no later start uses an older one.
func (m *middlemanPart) setTopology(t *topology.Topology) error {
	if n := t.DCs[m.self.DC].Members(topology.Middleman); m.alone != nil && n > 1 {
		return fmt.Errorf(
			"%d members for this shard (shardMembers), and this middleman keeps no log: restart it with "+
				"register.etcd and dataDir", n)
	}
	if err := m.m.SetTopology(t); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	return identityOf(t, m.self).claimStore(ctx, m.store)
}

func (m *middlemanPart) host() node.Host               { return m.m }
func (m *middlemanPart) handle(batch []causal.Message) { m.m.Handle(batch) }
func (m *middlemanPart) linkDown(topology.Node)        {}
func (m *middlemanPart) linkEnded(topology.Node)       {}
func (m *middlemanPart) linkUp(n topology.Node, _ causal.Leadership) {
	m.m.LinkUp(n)
}

func (m *middlemanPart) memberUp(member topology.Node) {
	if m.member != nil {
		m.m.LinkUp(member)
	}
}
func (m *middlemanPart) unsent(causal.Message) {}

func (m *middlemanPart) ready() error {
	m.mu.Lock()
	pingErr := m.storageErr
	m.mu.Unlock()
	if w, withdrawn := m.m.Withdrawn(); withdrawn {
		switch {
		case w.OldCopy:
			return inState(contract.StateDataLost, explainOldCopy(m.topo(), w.KnownTo, w.Without))
		case w.Excluded:
			return inState(contract.StateWithdrawn, explainWithdrawal(m.topo(), m.self.DC, w.Without))
		}
		return inState(contract.StateDataLost, explainKeptDamage(m.topo(), w))
	}
	if lost, known := m.m.DataLost(); lost {
		var progress middleman.BackfillProgress
		var refills bool
		m.m.Inspect(func(mm *middleman.Middleman) { progress, refills = mm.Backfill() })
		if progress.Kept {
			return inState(contract.StateWithdrawn, explainKept(m.topo(), progress))
		}
		return inState(contract.StateDataLost, explainLostStorage(m.topo(), known, progress, refills))
	}
	_, writeErr := m.m.StorageState()
	for _, err := range []error{pingErr, writeErr} {
		if errors.Is(err, storage.ErrFull) {
			return inState(contract.StateStorageFull, fmt.Errorf("storage takes no writes: %w", err))
		}
	}
	switch {
	case pingErr != nil:
		return inState(contract.StateStorageFailing, fmt.Errorf("storage does not answer: %w", pingErr))
	case writeErr != nil:
		return inState(contract.StateStorageFailing, fmt.Errorf("storage takes no writes: %w", writeErr))
	}
	if m.member != nil {
		if err := m.member.ready(); err != nil {
			return err
		}
	}
	if nodes := m.m.Unanswered(); len(nodes) > 0 {
		return explainUnanswered(m.topo(), "storage", nodes)
	}
	if nodes := m.m.Unheard(); len(nodes) > 0 {
		return explainUnheard(m.topo(), nodes)
	}
	return nil
}

// drain stops at once, or when another member serves: peers send unacknowledged messages again to who serves next.
func (m *middlemanPart) drain(ctx context.Context) (answered bool, err error) {
	if m.member != nil {
		err = m.member.drain(ctx)
	} else {
		m.alone.Close()
	}
	close(m.done)
	<-m.ended
	return false, err
}

func (m *middlemanPart) close() error {
	var err error
	if m.member != nil {
		err = m.member.close()
	}
	return errors.Join(err, m.store.Close())
}
