package process

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

// describeLoss returns what is known of the loss of a coordinator's log.
func (c *coordinatorPart) describeLoss() contract.Loss {
	t, s := c.topo(), c.c.Status()
	l := contract.Loss{Coordinator: fmt.Sprintf("%s/%d", t.DCs[c.self.DC].Name, c.self.Index), Epoch: s.Config.Epoch}
	switch {
	case s.Lost:
		l.Lost, l.Reason = true, s.Problem()
		return l
	case s.Role != group.Serving:
		l.Reason = fmt.Sprintf("this member is %s, and the group has %s", s.Role, c.c.Describe())
		if s.Role == group.Following {
			l.ServedBy = memberNumber(s.Config.Primary.Name)
			l.Reason = fmt.Sprintf(
				"this member follows; member %d serves, and knows whether it is: use its data directory", l.ServedBy)
		}
		return l
	}
	is := c.c.Membership()
	l.Membership, l.Reason = memberships[is], "it is "+is.String()
	switch is {
	case coordinator.LogLost:
		l.Lost, l.Reason = !c.c.IsRetired(), c.explainLostLog(t).Error()
	case coordinator.Salvaging:
		progress, active := c.c.Salvage()
		l.Progress, l.Begun = describeSalvage(t, progress), active && !progress.Collects
		l.Reason = "its log was lost and given up, and " + l.Progress
	case coordinator.Joining:
		if nodes := c.c.Unanswered(); len(nodes) > 0 {
			l.Reason = c.explainUnanswered(t, nodes).Error()
		}
	}
	return l
}

// describeSalvage says how far a lost log is given up, and what it waits for.
func describeSalvage(t *topology.Topology, s node.Salvage) string {
	if s.Collects {
		if len(s.Awaited) == 0 {
			return fmt.Sprintf(
				"all have answered, and %d writes were found; the new log begins when the clock has passed every "+
					"timestamp that the lost one may have used, which takes about ten seconds", s.Writes)
		}
		return fmt.Sprintf("what the shards hold of it is collected, %d writes so far; waiting for answers of %s",
			s.Writes, nameParts(t, s.Awaited))
	}
	if len(s.Awaited) == 0 {
		return fmt.Sprintf("what the shards held of it is completed in all rings: %d writes are left", s.Writes)
	}
	return fmt.Sprintf(
		"what the shards held of it is completed in all rings: %d writes are left; waiting for older writes, which "+
			"may precede them, to be completed by %s; if a log of these is lost, it is to be given up, too",
		s.Writes, nameParts(t, s.Awaited))
}

// progressInterval is how often the coordinator is asked whether its lost log is given up, and logInterval how often
// its progress is logged at most.
const progressInterval, logInterval = time.Second, 10 * time.Second

// logProgress logs how far a lost log is given up, and which values become usable, until the part is closed.
func (c *coordinatorPart) logProgress() {
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	was, said, saidAt := coordinator.Serving, "", time.Time{}
	formats := formatLog{}
	for {
		select {
		case <-c.closed:
			return
		case <-tick.C:
		}
		formats.note(c)
		is := c.c.Membership()
		switch {
		case is == coordinator.LogLost && was != is:
			c.log.Warn("the coordinator accepts no writes", "reason", c.explainLostLog(c.topo()))
		case is == coordinator.Salvaging:
			progress, active := c.c.Salvage()
			if s := describeSalvage(c.topo(), progress); active && s != said && time.Since(saidAt) >= logInterval {
				said, saidAt = s, time.Now()
				c.log.Info("a lost log is given up", "progress", s)
			}
		case was == coordinator.Salvaging && is == coordinator.Serving:
			c.log.Info(
				"the lost log is given up: what shards held of it is in all rings, and the coordinator takes writes")
			said, saidAt = "", time.Time{}
		}
		was = is
	}
}

// describeLoss returns what is known of the loss of the members of a shard.
func (m *memberPart) describeLoss(t *topology.Topology) contract.Loss {
	n, s := m.s.MemberNode(), m.s.Status()
	l := contract.Loss{Shard: fmt.Sprintf("%s/%d", t.DCs[n.DC].Name, n.Index), Epoch: s.Config.Epoch,
		Serves: m.s.Serves(), OneRing: len(t.Rings) == 1}
	switch {
	case s.WhyNotGivenUp != nil && s.Role == group.Serving:
		l.Reason = "this member serves, and the group has " + m.s.Describe()
	case s.WhyNotGivenUp != nil:
		l.Reason = fmt.Sprintf("this member is %s, and the group has %s; %v", s.Role, m.s.Describe(), s.WhyNotGivenUp)
	case len(s.Absent) == 0:
		l.Lost, l.Reason = true, s.Problem()
	default:
		l.Lost = true
		for _, name := range s.Absent {
			l.Absent = append(l.Absent, memberNumber(name))
		}
		l.Reason = fmt.Sprintf("the volumes of members are gone or damaged, and members %v are not heard of", l.Absent)
	}
	return l
}

// loss answers what is known of the loss of the log, or of the shard.
func (a *adminServer) loss(w http.ResponseWriter, _ *http.Request) {
	l, _ := a.lossOf()
	writeJSON(w, l)
}

// lossOf returns what is known of the loss, and what gives up what is lost.
func (a *adminServer) lossOf() (l contract.Loss, accept func(epoch uint64) error) {
	if a.coordinator != nil {
		return a.coordinator.describeLoss(), a.coordinator.c.AcceptLoss
	}
	return a.shard.describeLoss(a.topo()), a.shard.s.AcceptLoss
}

// acceptLoss gives up the log, or what the members of the shard held.
func (a *adminServer) acceptLoss(w http.ResponseWriter, r *http.Request) {
	epoch, err := strconv.ParseUint(r.URL.Query().Get(contract.ParamEpoch), 10, 64)
	if err != nil {
		http.Error(w, "give the epoch of the group that was seen", http.StatusBadRequest)
		return
	}
	l, accept := a.lossOf()
	if err := accept(epoch); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	a.log.Warn("somebody has given up what the members of this group held", "epoch", epoch,
		"it was lost because", l.Reason)
	w.WriteHeader(http.StatusNoContent)
}
