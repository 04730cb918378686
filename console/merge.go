package console

import (
	"slices"
	"strings"
)

// MergeLayouts returns the layout of a deployment of which several servers show a part each.
func MergeLayouts(title string, all []Layout) Layout {
	merged := Layout{Title: title}
	var versions []string
	for _, l := range all {
		for _, r := range l.Rings {
			if !slices.Contains(merged.Rings, r) {
				merged.Rings = append(merged.Rings, r)
			}
		}
		for _, dc := range l.DataCenters {
			if !slices.ContainsFunc(merged.DataCenters, func(known LayoutSite) bool { return known.Name == dc.Name }) {
				merged.DataCenters = append(merged.DataCenters, dc)
			}
		}
		if !slices.Contains(versions, l.Version) {
			versions = append(versions, l.Version)
		}
		if merged.NoClient == "" {
			merged.NoClient = l.NoClient
		}
		if merged.RunbookBase == "" {
			merged.RunbookBase = l.RunbookBase
		}
		merged.FactsAgeMs = max(merged.FactsAgeMs, l.FactsAgeMs)
	}
	merged.Version = strings.Join(versions, ", ")
	return merged
}

// Merge returns one snapshot of a deployment of which several servers show a part each: a data center is as the server
// shows it where it runs. elsewhere says why nothing is known of the others.
func Merge(l Layout, atMs int64, all []Snapshot, elsewhere func(LayoutSite) string) Snapshot {
	merged := Snapshot{AtMs: atMs, DataCenters: []DataCenter{}, Links: []Link{}, Problems: []Problem{}}
	for _, site := range l.DataCenters {
		merged.DataCenters = append(merged.DataCenters, findDataCenter(site, all, elsewhere))
	}
	for _, s := range all {
		merged.Epoch = max(merged.Epoch, s.Epoch)
		for _, link := range s.Links {
			addLink(&merged, link)
		}
		for _, p := range s.Problems {
			if !slices.Contains(merged.Problems, p) {
				merged.Problems = append(merged.Problems, p)
			}
		}
	}
	SortProblems(merged.Problems)
	return merged
}

func findDataCenter(site LayoutSite, all []Snapshot, elsewhere func(LayoutSite) string) DataCenter {
	for _, s := range all {
		for _, dc := range s.DataCenters {
			if dc.Name == site.Name && dc.Elsewhere == "" {
				return dc
			}
		}
	}
	return UnknownDataCenter(site.Name, elsewhere(site))
}

// UnknownDataCenter is a data center of which nothing is known here, for a reason.
func UnknownDataCenter(name, why string) DataCenter {
	return DataCenter{Name: name, Elsewhere: why, RingLagMs: map[string]*int64{}, Parts: []Part{}}
}

// addLink adds what one server knows of a link. Each end measures for itself; the traffic is the sum of what both send.
func addLink(s *Snapshot, l Link) {
	i := slices.IndexFunc(s.Links, func(k Link) bool { return k.A == l.A && k.B == l.B || k.A == l.B && k.B == l.A })
	if i < 0 {
		s.Links = append(s.Links, l)
		return
	}
	known := &s.Links[i]
	if known.A != l.A {
		l.CutAB, l.CutBA = l.CutBA, l.CutAB
	}
	known.CutAB, known.CutBA = known.CutAB || l.CutAB, known.CutBA || l.CutBA
	if known.RoundTripMs == nil {
		known.RoundTripMs = l.RoundTripMs
	}
	if known.BytesPerSecond == nil {
		known.BytesPerSecond = l.BytesPerSecond
	} else if l.BytesPerSecond != nil {
		sum := *known.BytesPerSecond + *l.BytesPerSecond
		known.BytesPerSecond = &sum
	}
}
