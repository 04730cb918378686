package status

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// etcdsView is what was observed of the etcds of this region, by the names of their data centers.
type etcdsView struct {
	all, withoutImage []string
	short             []string // those of whose members some do not serve, with the numbers
	withoutQuorum     []string
}

// addEtcd returns the state of the etcd of a data center, or nil if the operator runs none for it.
func (v *view) addEtcd(dc *v1alpha1.DataCenter) *v1alpha1.Count {
	if !v.HasEtcd(dc) {
		return nil
	}
	c := &v1alpha1.Count{Desired: dc.Etcd.WithDefaults().Replicas}
	pods := int32(0)
	for i := range v.Pods {
		if p := &v.Pods[i]; plan.IsOfEtcd(p) && p.Labels[plan.LabelDataCenter] == dc.Name {
			v.count(c, p, true)
			pods++
		}
	}
	v.etcds.all = append(v.etcds.all, dc.Name)
	text := fmt.Sprintf("%s has %d of %d", dc.Name, c.Ready, c.Desired)
	switch {
	case pods == 0 && v.EtcdImage == "" && dc.Etcd.Image == "":
		v.etcds.withoutImage = append(v.etcds.withoutImage, dc.Name)
	case c.Ready <= c.Desired/2:
		v.etcds.withoutQuorum = append(v.etcds.withoutQuorum, text)
	case c.Ready < c.Desired:
		v.etcds.short = append(v.etcds.short, text)
	}
	return c
}

// etcdReady holds if all members of the etcds of this region serve.
func etcdReady(v *view) verdict {
	short := strings.Join(slices.Concat(v.etcds.withoutQuorum, v.etcds.short), "; ")
	switch {
	case len(v.etcds.all) == 0:
		return yes(v1alpha1.ReasonNoEtcd,
			"the operator runs no etcd: no coordinator or shard here has several members, or "+
				"spec.dataCenters[].etcd.endpoints names another one")
	case len(v.etcds.withoutImage) > 0:
		return no(v1alpha1.ReasonEtcdImageMissing,
			"the operator has no image for the etcd of these data centers, whose coordinators or shards need it: %s; "+
				"set etcd.image.repository and etcd.image.tag of the chart (the operator's flag --etcd-image), or "+
				"spec.dataCenters[].etcd.image",
			strings.Join(v.etcds.withoutImage, ", "))
	case short != "" && !v.etcdsServed():
		return no(v1alpha1.ReasonEtcdStarting, "members of etcd that serve: %s%s", short, causes(v.etcdProblems))
	case len(v.etcds.withoutQuorum) > 0:
		return no(v1alpha1.ReasonEtcdWithoutQuorum,
			"members of etcd that serve: %s; reads and writes go on, but a coordinator or shard that fails now is "+
				"not replaced by another of its members%s", short, causes(v.etcdProblems))
	case short != "":
		return no(v1alpha1.ReasonEtcdMissing,
			"members of etcd that serve: %s; with one fewer, coordinators and shards that fail are not replaced by "+
				"others of their members%s", short, causes(v.etcdProblems))
	}
	return yes(v1alpha1.ReasonEtcdServes, "all members of etcd serve: those of %s", strings.Join(v.etcds.all, ", "))
}

// etcdsServed reports whether all etcds have served once, by the condition of before.
func (v *view) etcdsServed() bool {
	c := meta.FindStatusCondition(v.Store.Status.Conditions, v1alpha1.ConditionEtcdReady)
	return c != nil && !slices.Contains([]string{v1alpha1.ReasonNoEtcd, v1alpha1.ReasonEtcdImageMissing,
		v1alpha1.ReasonEtcdStarting}, c.Reason)
}
