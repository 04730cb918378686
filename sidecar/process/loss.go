package process

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/topology"
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
		return l
	}
	is := c.c.Membership()
	l.Membership, l.Reason = memberships[is], "it is "+is.String()
	switch is {
	case coordinator.LogLost:
		l.Lost, l.Reason = true, explainLostLog(t, c.c.DataLost()).Error()
	case coordinator.Salvaging:
		var waiting []topology.Node
		_, waiting, l.Found = c.c.Salvaging()
		l.Waiting = nameParts(t, waiting)
	case coordinator.Joining:
		if nodes := c.c.Unanswered(); len(nodes) > 0 {
			l.Reason = explainUnanswered(t, "log", nodes).Error()
		}
	}
	return l
}

// loss answers what is known of the loss of the log, and null for a shard, which cannot be given up.
func (a *adminServer) loss(w http.ResponseWriter, _ *http.Request) {
	var l *contract.Loss
	if a.coordinator != nil {
		known := a.coordinator.describeLoss()
		l = &known
	}
	writeJSON(w, l)
}

// acceptLoss gives up the log.
func (a *adminServer) acceptLoss(w http.ResponseWriter, r *http.Request) {
	epoch, err := strconv.ParseUint(r.URL.Query().Get(contract.ParamEpoch), 10, 64)
	if err != nil {
		http.Error(w, "give the epoch of the group that was seen", http.StatusBadRequest)
		return
	}
	reason := a.coordinator.describeLoss().Reason
	if err := a.coordinator.c.AcceptLoss(epoch); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	a.log.Warn("somebody has given up the log of this coordinator", "epoch", epoch, "it was lost because", reason)
	w.WriteHeader(http.StatusNoContent)
}
