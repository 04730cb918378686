package plan

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/topology"
)

// Record is what the operator must remember about a store, even when the store is deleted and created again on its old
// volumes: parts refuse a topology whose epoch is lower than one that they have seen.
type Record struct {
	// Epoch of the topology. It grows with each change of Layout.
	Epoch int64
	// RestartEpoch is the epoch of the last change that running parts do not apply live: they restart for it.
	RestartEpoch int64
	// Layout is the topology without epoch, as JSON. It is what the parts are configured with, and follows the spec as
	// data moves.
	Layout string
	// Served is how many coordinators of each data center of this region have been admitted and have served, counted
	// from the first one.
	Served map[string]int
	// Etcd are the data centers of this region whose etcd has once been whole.
	Etcd map[string]bool
	// Register are the data centers of this region whose coordinators have been given a register, which they keep.
	Register map[string]bool
	// ShardRegister are those whose shards have been given one, and a log for each member, which they keep too.
	ShardRegister map[string]bool
	// Image is the image of stores that name none. It is set from the operator when the store is created, and stays.
	Image string
	// Spec is the last spec that was applied, as JSON.
	Spec string
	// ID of the store in the certificates of its parts. It is spec.id, or if that is left out, one that is chosen once.
	ID string
	// Operator identifies the operator that runs this region of the store: the namespace of its lease.
	Operator string
}

// The keys of the record's ConfigMap.
const (
	recordEpoch        = "epoch"
	recordRestartEpoch = "since"
	recordLayout       = "layout.json"
	recordServed       = "served.json"
	recordEtcd         = "etcd.json"
	recordRegister     = "register.json"
	// recordShardRegister is Record.ShardRegister.
	recordShardRegister = "shard-register.json"
	recordImage         = "image"
	recordSpec          = "spec.json"
	recordOperator      = "operator"
	recordID            = "id"
)

// ReadRecord reads what recordMap has written.
func ReadRecord(m *corev1.ConfigMap) (*Record, error) {
	epoch, err := strconv.ParseInt(m.Data[recordEpoch], 10, 64)
	if err != nil {
		return nil,
			fmt.Errorf("ConfigMap %s: epoch: %w; set it to the greatest epoch that a part has logged, or higher",
				m.Name, err)
	}
	restartEpoch := epoch // records from before shards could change do not have it
	if text, ok := m.Data[recordRestartEpoch]; ok && text != "" {
		if restartEpoch, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("ConfigMap %s: %s: %w; remove it, which restarts all pods", m.Name,
				recordRestartEpoch, err)
		}
	}
	r := &Record{Epoch: epoch, RestartEpoch: restartEpoch, Layout: m.Data[recordLayout], Image: m.Data[recordImage],
		Spec: m.Data[recordSpec], Operator: m.Data[recordOperator], ID: m.Data[recordID]}
	if text, ok := m.Data[recordServed]; ok && text != "" {
		if err := json.Unmarshal([]byte(text), &r.Served); err != nil {
			return nil, fmt.Errorf("ConfigMap %s: %s: %w; remove it", m.Name, recordServed, err)
		}
	}
	for key, into := range map[string]*map[string]bool{recordEtcd: &r.Etcd, recordRegister: &r.Register,
		recordShardRegister: &r.ShardRegister} {
		if text := m.Data[key]; text != "" {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				return nil, fmt.Errorf("ConfigMap %s: %s: %w; set it to an object such as {\"DATA-CENTER\":true}",
					m.Name, key, err)
			}
		}
	}
	return r, nil
}

func (b *builder) recordMap() *corev1.ConfigMap {
	r := b.record
	served, err := json.Marshal(r.Served)
	if err != nil {
		panic(err) // unreachable: strings and numbers can always be encoded
	}
	m := &corev1.ConfigMap{ObjectMeta: b.keptMeta(RecordName(b.store.Name, b.in.Region), b.labels()),
		Data: map[string]string{
			recordEpoch: strconv.FormatInt(r.Epoch, 10), recordRestartEpoch: strconv.FormatInt(r.RestartEpoch, 10),
			recordLayout: r.Layout, recordServed: string(served), recordImage: r.Image, recordSpec: r.Spec,
			recordOperator: r.Operator, recordID: r.ID,
		}}
	for key, of := range map[string]map[string]bool{recordEtcd: r.Etcd, recordRegister: r.Register,
		recordShardRegister: r.ShardRegister} {
		if len(of) == 0 {
			continue
		}
		text, err := json.Marshal(of)
		if err != nil {
			panic(err) // unreachable, as above
		}
		m.Data[key] = string(text)
	}
	return m
}

// registers returns the data centers whose coordinators, or shards, have been given a register.
func (r *Record) registers(part topology.Part) map[string]bool {
	if part == topology.Middleman {
		return r.ShardRegister
	}
	return r.Register
}

// LastSpec returns the last spec that was applied, or nil.
func (r *Record) LastSpec() (*v1alpha1.CausalStoreSpec, error) {
	if r == nil || r.Spec == "" {
		return nil, nil
	}
	s := &v1alpha1.CausalStoreSpec{}
	if err := json.Unmarshal([]byte(r.Spec), s); err != nil {
		return nil, fmt.Errorf("read the last spec from the record: %w", err)
	}
	return s, nil
}

// WithoutData returns the record of a store that has no volume any more, or never had one: what it was binds nobody.
// The epoch still grows, since parts in other clusters may have seen it. An id that the spec names replaces the one
// from before.
func (r *Record) WithoutData(s *v1alpha1.CausalStoreSpec) *Record {
	next := &Record{Epoch: r.Epoch, RestartEpoch: r.RestartEpoch, Image: r.Image, Operator: r.Operator, ID: r.ID}
	if s.ID != "" {
		next.ID = s.ID
	}
	return next
}

// LayoutFile returns the recorded layout, or nil if there is none yet.
func (r *Record) LayoutFile() (*topology.File, error) {
	if r == nil || r.Layout == "" {
		return nil, nil
	}
	f := &topology.File{}
	if err := json.Unmarshal([]byte(r.Layout), f); err != nil {
		return nil, fmt.Errorf("read the layout from the record: %w", err)
	}
	return f, nil
}

// ServedCoordinators returns how many coordinators of a data center have served, counted from the first one. In records
// from before this was recorded all have. It returns 0 if there is no record yet.
func (r *Record) ServedCoordinators(dc string) int32 {
	f, err := r.LayoutFile()
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

// Exclusions returns how often a data center was excluded, as its parts are configured.
func (r *Record) Exclusions(dc string) int32 {
	f, err := r.LayoutFile()
	if err != nil || f == nil {
		return 0
	}
	if d := findDataCenter(f, dc); d != nil && d.Exclusions != nil {
		return int32(*d.Exclusions)
	}
	return 0
}

// DataShards returns how many shards of a data center certainly hold its data: during a change, those from before it.
// It returns 0 if there is no record yet.
func (r *Record) DataShards(dc string) int32 {
	f, err := r.LayoutFile()
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
