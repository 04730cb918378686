package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	// Layout is the topology without epoch, as JSON.
	Layout string
	// Image that stores without one run. It is the operator's when the store is made, and stays.
	Image string
	// Spec is the spec that was carried out last, as JSON.
	Spec string
}

const (
	recordEpoch  = "epoch"
	recordLayout = "layout.json"
	recordImage  = "image"
	recordSpec   = "spec.json"
)

// ReadRecord reads what recordMap has written.
func ReadRecord(m *corev1.ConfigMap) (*Record, error) {
	epoch, err := strconv.ParseInt(m.Data[recordEpoch], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s: epoch: %w; correct it to at least the greatest that a part has logged", m.Name, err)
	}
	return &Record{Epoch: epoch, Layout: m.Data[recordLayout], Image: m.Data[recordImage], Spec: m.Data[recordSpec]}, nil
}

func (b *builder) recordMap() *corev1.ConfigMap {
	r := b.record
	return &corev1.ConfigMap{ObjectMeta: b.keptMeta(RecordName(b.store.Name), b.labels()), Data: map[string]string{
		recordEpoch: strconv.FormatInt(r.Epoch, 10), recordLayout: r.Layout, recordImage: r.Image, recordSpec: r.Spec,
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

// nextRecord raises the epoch if the layout has changed, or if it is not known any more what it was.
func nextRecord(in Observed) (Record, error) {
	layout, err := json.Marshal(fileOf(&in.Store.Spec, 0))
	if err != nil {
		return Record{}, err
	}
	spec, err := json.Marshal(in.Store.Spec)
	if err != nil {
		return Record{}, err
	}
	next := Record{Epoch: 1, Layout: string(layout), Image: in.Image, Spec: string(spec)}
	seen := in.Store.Status.Topology.Epoch
	switch was := in.Record; {
	case was == nil && seen > 0:
		next.Epoch = seen + 1
	case was != nil:
		next.Epoch, next.Image = max(was.Epoch, seen), was.Image
		if !bytes.Equal([]byte(was.Layout), layout) {
			next.Epoch++
		}
	}
	return next, nil
}

// fileOf is the topology of a spec. Rings list their data centres in the order of the spec, so that the order in a ring says
// nothing.
func fileOf(s *v1alpha1.CausalStoreSpec, epoch int64) topology.File {
	f := topology.File{Epoch: uint64(epoch)}
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
