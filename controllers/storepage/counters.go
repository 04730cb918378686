package storepage

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/controllers/partmetrics"
	"github.com/causalstore/causalstore/sidecar/causal/session"
)

// counters adds up what processes count, so that totals of a data center never fall when a process starts, ends or does
// not answer.
type counters struct {
	before map[processKey]totals
	// operations are by data center, bytes by the data centers that they go from and to.
	operations map[string]console.Counters
	bytes      map[[2]string]uint64
}

// processKey tells processes apart, also those of pods that have been replaced under the same name.
type processKey struct {
	pod  types.UID
	name string
	port int
}

// totals are the counters of one process.
type totals struct {
	operations console.Counters
	bytes      map[string]uint64 // sent, by data center
}

// add adds by how much the processes that answered have counted since the last time, and returns the sums so far.
func (c *counters) add(all []reading) counters {
	now := map[processKey]totals{}
	sums := counters{operations: map[string]console.Counters{}, bytes: map[[2]string]uint64{}}
	for _, r := range all {
		if r.err != nil {
			continue // what it counts until it answers again is left out: it would look like a burst
		}
		key := processKey{r.pod.UID, r.pod.Namespace + "/" + r.pod.Name, r.port}
		is := totalsOf(r.metrics)
		now[key] = is
		was, known := c.before[key]
		if !known {
			was = is
		}
		if r.serves {
			sums.operations[r.dataCenter] = plus(sums.operations[r.dataCenter], since(was.operations, is.operations))
		}
		for to, n := range is.bytes {
			sums.bytes[[2]string{r.dataCenter, to}] += grown(was.bytes[to], n)
		}
	}
	for dc, n := range sums.operations {
		sums.operations[dc] = plus(n, c.operations[dc])
	}
	for pair := range sums.bytes {
		sums.bytes[pair] += c.bytes[pair]
	}
	c.before = now
	if c.operations == nil {
		c.operations, c.bytes = map[string]console.Counters{}, map[[2]string]uint64{}
	}
	for dc, n := range sums.operations {
		c.operations[dc] = n
	}
	for pair, n := range sums.bytes {
		c.bytes[pair] = n
	}
	return sums
}

func totalsOf(f partmetrics.Families) totals {
	reads := func(s session.Source) uint64 {
		return uint64(f.Sum(metricReads, func(label func(string) string) bool { return label("source") == s.String() }))
	}
	t := totals{bytes: map[string]uint64{},
		operations: console.Counters{Own: reads(session.SourceOwn), Near: reads(session.SourceNear),
			Home: reads(session.SourceHome), Cache: reads(session.SourceCache), Local: reads(session.SourceLocal),
			Remote: reads(session.SourceRemote), Writes: uint64(f.Sum(metricPuts, nil)),
			Failed: uint64(f.Sum(metricUnavailable, nil) + f.Sum(metricUnknown, nil))}}
	for _, m := range f[metricPeerBytes].GetMetric() {
		if partmetrics.Label(m, "direction") == "sent" {
			t.bytes[partmetrics.Label(m, "to_data_center")] += uint64(partmetrics.Value(m))
		}
	}
	return t
}

// grown returns by how much a counter has grown; one that is less than before has started again at 0.
func grown(was, is uint64) uint64 {
	if is < was {
		return is
	}
	return is - was
}

func since(was, is console.Counters) console.Counters {
	return console.Counters{Own: grown(was.Own, is.Own), Near: grown(was.Near, is.Near),
		Home: grown(was.Home, is.Home), Cache: grown(was.Cache, is.Cache), Local: grown(was.Local, is.Local),
		Remote: grown(was.Remote, is.Remote),
		Writes: grown(was.Writes, is.Writes), Failed: grown(was.Failed, is.Failed)}
}

func plus(a, b console.Counters) console.Counters {
	return console.Counters{Own: a.Own + b.Own, Near: a.Near + b.Near, Home: a.Home + b.Home, Cache: a.Cache + b.Cache,
		Local: a.Local + b.Local, Remote: a.Remote + b.Remote,
		Writes: a.Writes + b.Writes, Failed: a.Failed + b.Failed}
}
