package plan

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// Record is what the operator must not forget about a store, not even when the store is deleted and made again on its old
// volumes: parts refuse a topology whose epoch is lower than one that they have seen.
type Record struct {
	// Epoch of the topology. It grows with each change of Layout.
	Epoch int64
	// Since is the epoch of the last change that running parts do not take over: they restart for it.
	Since int64
	// Layout is the topology without epoch, as JSON: what the parts are told, which follows the spec as data moves.
	Layout string
	// Served is how many coordinators of each data centre here have been let in and have served, from the first on.
	Served map[string]int
	// Image that stores without one run. It is the operator's when the store is made, and stays.
	Image string
	// Spec is the spec that was carried out last, as JSON.
	Spec string
}

const (
	recordEpoch  = "epoch"
	recordSince  = "since"
	recordLayout = "layout.json"
	recordServed = "served.json"
	recordImage  = "image"
	recordSpec   = "spec.json"
)

// ReadRecord reads what recordMap has written.
func ReadRecord(m *corev1.ConfigMap) (*Record, error) {
	epoch, err := strconv.ParseInt(m.Data[recordEpoch], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s: epoch: %w; correct it to at least the greatest that a part has logged", m.Name, err)
	}
	since := epoch // as it was before shards could change
	if text := m.Data[recordSince]; text != "" {
		if since, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("ConfigMap %s: since: %w; remove it, and all pods restart", m.Name, err)
		}
	}
	r := &Record{Epoch: epoch, Since: since, Layout: m.Data[recordLayout], Image: m.Data[recordImage], Spec: m.Data[recordSpec]}
	if text := m.Data[recordServed]; text != "" {
		if err := json.Unmarshal([]byte(text), &r.Served); err != nil {
			return nil, fmt.Errorf("ConfigMap %s: %s: %w; remove it", m.Name, recordServed, err)
		}
	}
	return r, nil
}

func (b *builder) recordMap() *corev1.ConfigMap {
	r := b.record
	served, err := json.Marshal(r.Served)
	if err != nil {
		panic(err) // names and numbers always have an encoding
	}
	return &corev1.ConfigMap{ObjectMeta: b.keptMeta(RecordName(b.store.Name), b.labels()), Data: map[string]string{
		recordEpoch: strconv.FormatInt(r.Epoch, 10), recordSince: strconv.FormatInt(r.Since, 10),
		recordLayout: r.Layout, recordServed: string(served), recordImage: r.Image, recordSpec: r.Spec,
	}}
}

// Last returns the spec that was carried out last, or nil.
func (r *Record) Last() (*v1alpha1.CausalStoreSpec, error) {
	if r == nil || r.Spec == "" {
		return nil, nil
	}
	s := &v1alpha1.CausalStoreSpec{}
	if err := json.Unmarshal([]byte(r.Spec), s); err != nil {
		return nil, fmt.Errorf("read the record of the last spec: %w", err)
	}
	return s, nil
}

// File returns the layout, or nil if nothing has been noted yet.
func (r *Record) File() (*topology.File, error) {
	if r == nil || r.Layout == "" {
		return nil, nil
	}
	f := &topology.File{}
	if err := json.Unmarshal([]byte(r.Layout), f); err != nil {
		return nil, fmt.Errorf("read the record of the layout: %w", err)
	}
	return f, nil
}

// Serving is how many coordinators of a data centre have served, from the first on. Before that was noted, all had. It is 0 if
// nothing has been noted yet.
func (r *Record) Serving(dc string) int32 {
	f, err := r.File()
	if err != nil || f == nil {
		return 0
	}
	if n, ok := r.Served[dc]; ok {
		return int32(n)
	}
	if d := findDataCenter(f, dc); d != nil {
		return int32(*d.Coordinators)
	}
	return 0
}

// Holding is how many shards of a data centre hold its data for certain: while they change, those that did before. It is 0 if
// nothing has been noted yet.
func (r *Record) Holding(dc string) int32 {
	f, err := r.File()
	if err != nil || f == nil {
		return 0
	}
	d := findDataCenter(f, dc)
	switch {
	case d == nil:
		return 0
	case d.ShardsBefore != nil:
		return int32(*d.ShardsBefore)
	}
	return int32(*d.Shards)
}

// next decides what the parts are told. The epoch rises if that has changed, or if it is not known any more what it was.
func (b *builder) next(in Observed) error {
	spec, err := json.Marshal(in.Store.Spec)
	if err != nil {
		return err
	}
	was, err := in.Record.File()
	if err != nil {
		return err
	}
	b.layout = fileOf(&in.Store.Spec)
	if was != nil {
		b.regroup, b.reshape = follow(in, was, &b.layout)
	}
	layout, err := json.Marshal(b.layout)
	if err != nil {
		return err
	}
	r := Record{Epoch: 1, Since: 1, Layout: string(layout), Served: serving(in, was, &b.layout), Image: in.Image, Spec: string(spec)}
	switch seen := in.Store.Status.Topology.Epoch; {
	case in.Record == nil && seen > 0:
		r.Epoch, r.Since = seen+1, seen+1
	case in.Record != nil:
		r.Epoch, r.Since, r.Image = max(in.Record.Epoch, seen), in.Record.Since, in.Record.Image
		if in.Record.Layout != r.Layout {
			r.Epoch++
			if was == nil || !sameButNumbers(was, &b.layout) {
				r.Since = r.Epoch
			}
		}
	}
	b.record, b.layout.Epoch = r, uint64(r.Epoch)
	return nil
}

// sameButNumbers says whether running parts take over the one layout after the other.
func sameButNumbers(a, b *topology.File) bool {
	bare := func(f topology.File) topology.File {
		f.Epoch, f.DataCenters = 0, slices.Clone(f.DataCenters)
		for i := range f.DataCenters {
			dc := &f.DataCenters[i]
			dc.Coordinators, dc.CoordinatorsBefore, dc.Shards, dc.ShardsBefore, dc.Caches = nil, nil, nil, nil, nil
		}
		return f
	}
	return reflect.DeepEqual(bare(*a), bare(*b))
}

// fileOf is the topology of a spec. Rings list their data centres in the order of the spec, so that the order in a ring says
// nothing.
func fileOf(s *v1alpha1.CausalStoreSpec) topology.File {
	f := topology.File{}
	count := func(n int32) *int { i := int(n); return &i }
	for _, dc := range s.DataCenters {
		f.DataCenters = append(f.DataCenters, topology.FileDataCenter{Name: dc.Name,
			Coordinators: count(dc.Coordinators.Replicas), Caches: count(dc.Caches.Replicas), Shards: count(dc.Shards)})
	}
	for _, r := range s.Rings {
		ring := topology.FileRing{Name: r.Name}
		for _, dc := range s.DataCenters {
			for _, name := range r.DataCenters {
				if name == dc.Name {
					ring.DataCenters = append(ring.DataCenters, name)
				}
			}
		}
		f.Rings = append(f.Rings, ring)
	}
	return f
}
