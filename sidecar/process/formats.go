package process

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// formatLog is what was logged of the formats of values (PROTOCOL FMT).
type formatLog struct {
	usable    causal.Format
	lacking   topology.Node
	lackingAt time.Time
}

// note logs that a format has become usable, or, now and then, for which part that waits.
func (l *formatLog) note(c *coordinatorPart) {
	usable, lacking, isLacking := c.c.Formats()
	if usable > l.usable {
		l.usable = usable
		c.log.Info("all parts of the store read values of this format: they are accepted from now on; do not go back "+
			"to a version that does not read them", "format", uint64(usable))
	}
	if isLacking && lacking != l.lacking && time.Since(l.lackingAt) >= logInterval {
		l.lacking, l.lackingAt = lacking, time.Now()
		c.log.Info("some values are refused until all parts of the store are known to read them: finish the upgrade",
			"waitingFor", nameParts(c.topo(), []topology.Node{lacking}))
	}
}
