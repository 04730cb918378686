package group

import "github.com/causalstore/causalstore/sidecar/causal"

// RegisterOp is a request to the register. A read is linearizable. A swap replaces the configuration with the nonce
// Expect, or none if that is zero, by Config, and is sent on a connection on which the id of the cluster is known to be
// Cluster; otherwise it fails.
type RegisterOp struct {
	ID      uint64
	Swap    bool
	Cluster string
	Expect  Nonce
	Config  Config
}

// Outcome is that of a request.
type Outcome uint8

// The outcomes.
const (
	Done    Outcome = iota + 1
	Failed          // nothing was done, and nothing will be
	Unknown         // a swap may have been done, or be done later
)

// RegisterResult answers a RegisterOp.
type RegisterResult struct {
	ID      uint64
	Outcome Outcome
	Cluster string
	Found   bool // of a read
	Config  Config
}

// register is what a member knows of the register, and its request in progress.
type register struct {
	op       RegisterOp
	busy     bool
	sentAt   int64
	lastID   uint64
	waitTill int64 // no request before

	// fresh: the register was read since the last swap, and holds the configuration with the nonce expect in cluster.
	fresh   bool
	expect  Nonce
	epoch   uint64
	cluster string
	readAt  int64
	// members are those of this group in the configuration that was read last, also of one that is not believed: they
	// may know more.
	members []ID
	// What was known when the read was sent.
	knownEpoch   uint64
	knownNonce   Nonce
	knownGroup   uint64
	knownCluster string
}

// RegisterOps appends the requests to be sent to dst. RegisterDone answers each of them once, however late.
func (g *Group) RegisterOps(dst []RegisterOp) []RegisterOp {
	dst = append(dst, g.ops...)
	g.ops = causal.Recycle(g.ops)
	return dst
}

// RegisterChanged is a hint that the register has changed. Hints may be wrong, late or lost.
func (g *Group) RegisterChanged(now causal.Now) {
	if g.ready() && g.state.Config.Epoch > 0 {
		g.read(now)
	}
}

// AcceptRegister says that a person has decided to believe the register, although it has another id or an older
// configuration: the configuration that this member knows continues there. It must be the highest one of all members.
func (g *Group) AcceptRegister(now causal.Now) {
	g.accept, g.frozen, g.register.fresh = true, "", false
	g.read(now)
}

func (g *Group) canRequest(now causal.Now) bool {
	return g.opts.Register && !g.register.busy && now.Mono >= g.register.waitTill
}

// read reads the register, if no request is in progress.
func (g *Group) read(now causal.Now) {
	if !g.canRequest(now) {
		return
	}
	r := &g.register
	c := &g.state.Config
	r.knownEpoch, r.knownNonce, r.knownGroup, r.knownCluster = c.Epoch, c.Nonce, c.Group, g.state.Cluster
	g.request(now, RegisterOp{})
}

// swap proposes a configuration in place of the one that was read.
func (g *Group) swap(now causal.Now, c Config) {
	r := &g.register
	r.fresh = false
	g.request(now, RegisterOp{Swap: true, Cluster: r.cluster, Expect: r.expect, Config: c})
}

// lookAtRegister reads the register if a primary has not done so for long: notifications may be lost.
func (g *Group) lookAtRegister(now causal.Now) {
	if now.Mono-g.register.readAt > int64(g.opts.ReadEvery) {
		g.read(now)
	}
}

func (g *Group) request(now causal.Now, op RegisterOp) {
	r := &g.register
	r.lastID++
	op.ID = r.lastID
	r.op, r.busy, r.sentAt = op, true, now.Mono
	g.ops = append(g.ops, op)
}

// expireRequest gives up a request that takes too long. Its outcome is unknown.
func (g *Group) expireRequest(now causal.Now) {
	if r := &g.register; r.busy && now.Mono-r.sentAt > int64(g.opts.RegisterTimeout) {
		g.RegisterDone(now, RegisterResult{ID: r.op.ID, Outcome: Unknown})
	}
}

// RegisterDone takes in the outcome of a request.
func (g *Group) RegisterDone(now causal.Now, res RegisterResult) {
	r := &g.register
	if !r.busy || res.ID != r.op.ID {
		return // it was given up
	}
	r.busy = false
	op := r.op
	if !op.Swap || res.Outcome == Done {
		g.noteRead(now, res.Outcome == Done)
	}
	if res.Outcome != Done {
		r.waitTill = now.Mono + int64(g.opts.Retry)
	}
	if op.Swap {
		g.troubles.changesFail.set(now, res.Outcome != Done)
	}
	switch {
	case !op.Swap && res.Outcome == Done:
		r.readAt = now.Mono
		g.observe(now, res)
	case op.Swap && res.Outcome == Done:
		g.forgetLost(now, &op.Config)
		g.learn(now, res.Cluster, &op.Config)
	case op.Swap:
		g.swapFailed(now, res.Outcome)
	}
	if g.lead != nil {
		g.plan(now)
	}
}

// frozenForeign is why a group is frozen whose place in the register is taken by another one.
const frozenForeign = "the register holds the configuration of another group"

// observe judges what the register holds against what was known when the read was sent.
func (g *Group) observe(now causal.Now, res RegisterResult) {
	r := &g.register
	r.cluster, r.expect, r.epoch, r.members = res.Cluster, Nonce{}, 0, nil
	if res.Found {
		r.expect, r.epoch = res.Config.Nonce, res.Config.Epoch
		if !g.isForeign(&res.Config) {
			r.members = res.Config.Members
		}
	}
	if res.Found && r.cluster == r.knownCluster && !g.accept {
		if g.forgetLost(now, &res.Config); g.state.Config.Epoch == 0 {
			r.knownEpoch = 0
		}
	}
	problem := ""
	switch {
	case g.accept:
		r.fresh = true
		return
	case r.knownEpoch == 0:
	case res.Found && res.Config.Group != r.knownGroup:
		if problem = frozenForeign; r.cluster == r.knownCluster {
			g.noteReplaced(now, &res.Config)
		}
	case r.knownCluster == "":
		// This group was in no register yet, but for a swap of its only member that may have applied.
	case r.cluster != r.knownCluster:
		problem = "the register is another one: it has another cluster id"
	case r.epoch < r.knownEpoch || r.epoch == r.knownEpoch && r.expect != r.knownNonce:
		problem = "the register is older than this group: it was restored from a backup"
	}
	if problem != "" && g.opts.Broken.Has(causal.OldRegister) {
		problem = ""
		g.state.Config.Epoch = min(g.state.Config.Epoch, max(r.epoch, 1)-1)
		if g.lead != nil && res.Found && res.Config.Primary != g.self {
			g.stop(false)
		}
	}
	if g.frozen = problem; problem != "" {
		r.fresh = false
		return
	}
	if res.Found {
		g.learn(now, res.Cluster, &res.Config)
	}
	r.fresh = r.epoch == g.state.Config.Epoch && r.expect == g.state.Config.Nonce || !res.Found && g.state.Cluster == ""
}

// newNonce returns a nonce that was never used.
func (g *Group) newNonce() Nonce {
	g.proposed++
	return Nonce{g.self.Volume, g.state.Life, g.proposed}
}

// IsUncreated reports whether the register, as it was read since the start of this member, has no configuration of the
// group.
func (g *Group) IsUncreated() bool {
	return g.opts.Register && g.register.fresh && g.register.epoch == 0
}
