package plan

import (
	"encoding/json"
	"strconv"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// advanceRecord decides the next layout and its epoch. The epoch grows if the layout has changed, or if it is unknown
// what it was.
func (b *builder) advanceRecord() error {
	in := b.in
	spec, err := json.Marshal(in.Store.Spec)
	if err != nil {
		return err
	}
	last, err := in.Record.LayoutFile()
	if err != nil {
		return err
	}
	b.layout = layoutOf(&in.Store.Spec)
	if last != nil {
		b.scaling, b.resharding = advanceLayout(in, last, &b.layout)
		noteReturned(in, last, &b.layout)
	}
	layout, err := json.Marshal(b.layout)
	if err != nil {
		return err
	}
	r := Record{Epoch: 1, RestartEpoch: 1, Layout: string(layout), Served: countServed(in, last, &b.layout),
		Etcd: countFounded(in), Register: countRegisters(in, topology.Coordinator, last == nil),
		ShardRegister: countRegisters(in, topology.Middleman, last == nil), Image: in.Image, Spec: string(spec),
		Operator: in.Operator, ID: in.storeID()}
	switch seen := in.Store.Status.Topology.Epoch; {
	case in.Record == nil && seen > 0:
		r.Epoch, r.RestartEpoch = seen+1, seen+1
	case in.Record != nil:
		r.Epoch, r.RestartEpoch, r.Image = max(in.Record.Epoch, seen), in.Record.RestartEpoch, in.Record.Image
		if in.Record.Layout != r.Layout {
			r.Epoch++
			if last == nil || !appliesLive(last, &b.layout) {
				r.RestartEpoch = r.Epoch
			}
		}
	}
	b.record, b.layout.Epoch = r, uint64(r.Epoch)
	return nil
}

// appliesLive reports whether running parts switch from the one layout to the other without a restart. A layout that is
// no valid topology is none that parts run.
func appliesLive(last, next *topology.File) bool {
	old, err := last.Topology()
	if err != nil {
		return false
	}
	t, err := next.Topology()
	return err == nil && contract.AppliesLive(old, t)
}

// podsToNotify returns the pods that have not been marked with the epoch of a change that applies live. They are marked
// only after the change was recorded: before, their kubelets would bring them the old configuration.
func (b *builder) podsToNotify() (pods []string) {
	if b.in.Record == nil || b.in.Record.Epoch != b.record.Epoch || b.record.Epoch == b.record.RestartEpoch {
		return nil
	}
	for i := range b.in.Pods {
		p := &b.in.Pods[i]
		if !IsOfEtcd(p) && p.Annotations[AnnotationEpoch] != strconv.FormatInt(b.record.Epoch, 10) &&
			p.DeletionTimestamp == nil {
			pods = append(pods, p.Name)
		}
	}
	return pods
}
