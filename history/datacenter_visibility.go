package history

import (
	"fmt"
	"slices"
	"sort"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// acknowledged is the newest of the writes that were acknowledged at a time.
type acknowledged struct {
	at      int64
	version causal.Version
	op      int
}

// checkVisibility checks local visibility of a key in a data center.
func (r *DataCenterReport) checkVisibility(h History, k *keyAccesses, dc string, o DataCenterOptions) {
	p := &r.Visibility
	p.Keys++
	newest := k.acknowledgedIn(dc)
	versions := k.versionsOfValues()
	removedFrom := k.removedFrom()
	for i := range k.accesses {
		a := &k.accesses[i]
		if a.dc != dc || !a.answered {
			continue
		}
		version, known := a.version, !a.version.IsZero()
		_, writes := a.writes()
		if !known && !writes && a.asks == whole {
			if a.isNil {
				known = a.end < removedFrom // nothing can have removed it: so it was never written before
			} else if version = versions[a.reply]; !version.IsZero() {
				known = true
			}
		}
		if !known {
			p.NotJudged++
			continue
		}
		p.Judged++
		n := sort.Search(len(newest), func(i int) bool { return newest[i].at >= a.start })
		if n == 0 {
			continue
		}
		switch before := newest[n-1]; {
		case writes && !before.version.Less(version):
			p.add(OldWrite, o, fmt.Sprintf("%s in %s: %s: its version is not above that of %s, which was acknowledged "+
				"before it started", shown(k.name), dc, during(&h[a.op]), during(&h[before.op])), before.op, a.op)
		case !writes && version.Less(before.version):
			p.add(OldRead, o, fmt.Sprintf("%s in %s: %s: it is older than %s, which was acknowledged before it started",
				shown(k.name), dc, during(&h[a.op]), during(&h[before.op])), before.op, a.op)
		}
	}
}

// acknowledgedIn returns the newest acknowledged writes of a data center, in the order of time.
func (k *keyAccesses) acknowledgedIn(dc string) (newest []acknowledged) {
	for i := range k.accesses {
		a := &k.accesses[i]
		if _, writes := a.writes(); writes && a.answered && a.dc == dc && !a.version.IsZero() {
			newest = append(newest, acknowledged{a.end, a.version, a.op})
		}
	}
	slices.SortStableFunc(newest, func(a, b acknowledged) int { return int(min(max(a.at-b.at, -1), 1)) })
	for i := 1; i < len(newest); i++ {
		if before := newest[i-1]; newest[i].version.Less(before.version) {
			newest[i].version, newest[i].op = before.version, before.op
		}
	}
	return newest
}

// versionsOfValues returns the versions of values that one write has; zero: several have. There are none if a value was
// written again.
func (k *keyAccesses) versionsOfValues() map[string]causal.Version {
	versions := map[string]causal.Version{}
	if slices.ContainsFunc(k.accesses, func(a access) bool { return a.rewrites }) {
		return versions
	}
	for i := range k.accesses {
		a := &k.accesses[i]
		left, writes := a.wrote()
		if !writes || !left.present || left.any {
			continue
		}
		version := a.version
		if other, taken := versions[left.text]; taken && other != version {
			version = causal.Version{}
		}
		versions[left.text] = version
	}
	return versions
}

// removedFrom returns when the first operation started that may have removed the key.
func (k *keyAccesses) removedFrom() int64 {
	from := int64(1<<63 - 1)
	for i := range k.accesses {
		a := &k.accesses[i]
		if left, writes := a.wrote(); writes && !left.present {
			from = min(from, a.start)
		}
	}
	return from
}
