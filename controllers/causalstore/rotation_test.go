package causalstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/trust"
)

// accept makes all parts say that data centers accept some authorities, given by their fingerprints.
func (p *parts) accept(fingerprints string, dcs ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := contract.Readiness{Ready: true, Phase: contract.PhaseRunning}
	if p.others != nil {
		r = *p.others
	}
	for _, dc := range dcs {
		a := contract.Acceptance{DataCenter: dc, Links: 1}
		for _, f := range strings.Fields(fingerprints) {
			a.Roots = append(a.Roots, f[:16])
		}
		r.Acceptance = append(r.Acceptance, a)
	}
	p.others = &r
}

// forget makes parts say nothing.
func (p *parts) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.others = nil
}

// rotation is the authority of a region while it is replaced.
type rotation struct {
	*cluster
	name string
	own  corev1.ConfigMap
}

// field returns a field of the published authority.
func (r *rotation) field(name string) string {
	r.t.Helper()
	r.get(r.name, &r.own)
	return r.own.Data[name]
}

// ask asks the operator for a step.
func (r *rotation) ask(verb, field string) {
	r.t.Helper()
	fingerprint := r.field(field)
	r.own.Annotations = map[string]string{trust.AnnotationRotate: trust.RotationRequest(verb, fingerprint)}
	if err := r.client.Update(r.t.Context(), &r.own); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rotation) await(field, want string) {
	r.t.Helper()
	r.cluster.await(field+" "+want, func() (bool, string) {
		is := r.field(field)
		return want == "" && is == "" || want != "" && strings.Contains(is, want), is
	})
}

// begin asks for a new authority and returns its fingerprint.
func (r *rotation) begin() (next string) {
	r.t.Helper()
	r.ask(trust.RotateBegin, trust.FieldIssuing)
	r.cluster.await("a new authority", func() (bool, string) {
		next = r.field(trust.FieldNext)
		return next != "", fmt.Sprint(r.own.Data)
	})
	return next
}

func TestARotationIsCarriedOutOnRequest(t *testing.T) {
	k := newCluster(t)
	k.prober = k.parts
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	r := &rotation{cluster: k, name: "authority-local"}
	old := k.trustOf("try-here")
	first := r.field(trust.FieldIssuing)
	k.parts.accept(first, "here")
	next := r.begin()
	domain := old.DataCenters["here"]
	k.await("two authorities in the trust file", func() (bool, string) {
		n := strings.Count(k.trustOf("try-here").Bundles[domain], "BEGIN")
		return n == 2, fmt.Sprint(n)
	})
	r.await(trust.FieldWaiting, "store "+k.namespace+"/try: data center here of region local does not accept it yet")
	k.certificate("try-here-coordinator-tls", "0", old) // still of the old one
	c := k.awaitCondition("try", v1alpha1.ConditionCertificatesCurrent, yes, v1alpha1.ReasonAuthorityRotating)
	if !strings.Contains(c.Message,
		next[:16]+") issues when all data centers accept it: data center here of region local does not accept it yet") {
		t.Error(c.Message)
	}
	k.parts.forget()
	r.await(trust.FieldWaiting, "cannot be asked: it does not answer")
	k.parts.accept(first+" "+next, "here")
	r.await(trust.FieldIssuing, next)
	all, err := trust.ParseBundle(r.field(trust.FieldBundle), domain)
	if err != nil || len(all) != 2 || r.field(trust.FieldRetired) != first {
		t.Fatalf("%d authorities: %v", len(all), err)
	}
	k.await("a certificate of the new authority", func() (bool, string) {
		return k.certificate("try-here-coordinator-tls", "0", k.trustOf("try-here")).CheckSignatureFrom(all[0]) == nil,
			"it is of the old one"
	})
	k.awaitCondition("try", v1alpha1.ConditionCertificatesCurrent, yes, v1alpha1.ReasonCertificatesRenewed)
	k.clock.ahead.Store(int64(9 * 24 * time.Hour))
	k.await("the old authority to be dropped", func() (bool, string) {
		n := strings.Count(k.trustOf("try-here").Bundles[domain], "BEGIN")
		return n == 1, fmt.Sprint(n)
	})
}

func TestANewAuthorityWaitsForTheRegionsOfEveryStore(t *testing.T) {
	k := newCluster(t)
	k.prober = k.parts
	k.operator("us-east-1", "causalstore:v1")
	k.sample("three-regions.yaml", nil)
	k.sample("three-regions.yaml", func(s *v1alpha1.CausalStore) {
		s.Name, s.Spec.ID = "second", "2f6c9f0e-3c1b-4f7e-9a51-6d0f1c2b3a4d"
	})
	k.awaitCondition("orders", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("second", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	r := &rotation{cluster: k, name: "authority-us-east-1"}
	first := r.field(trust.FieldIssuing)
	k.parts.accept(first, "us-east-1", "eu-west-1", "ap-southeast-1")
	next := r.begin()
	k.parts.forget()
	k.parts.accept(first+" "+next, "us-east-1", "eu-west-1")
	for _, store := range []string{"orders", "second"} {
		r.await(trust.FieldWaiting, "store "+k.namespace+"/"+store+
			": data center ap-southeast-1 of region ap-southeast-1 has no link with the parts here")
	}
	c := k.awaitCondition("orders", v1alpha1.ConditionCertificatesCurrent, yes, v1alpha1.ReasonAuthorityRotating)
	if strings.Contains(c.Message, "second") {
		t.Errorf("the condition of a store names another one: %s", c.Message)
	}
	k.clock.ahead.Store(int64(time.Hour)) // time is no reason
	k.touch("orders")
	r.await(trust.FieldWaiting, "ap-southeast-1")
	if r.field(trust.FieldIssuing) != first {
		t.Error("the new authority issues while a region is away")
	}
	// A store that does not exist any more does not matter, and somebody forces the rest.
	if err := k.client.Delete(t.Context(), k.store("second")); err != nil {
		t.Fatal(err)
	}
	k.await("the deleted store to be forgotten", func() (bool, string) {
		is := r.field(trust.FieldWaiting)
		return is != "" && !strings.Contains(is, "second"), is
	})
	r.ask(trust.RotateForce, trust.FieldNext)
	r.await(trust.FieldIssuing, next)
	r.await(trust.FieldWaiting, "")
}

// TestAnAuthorityThatWasMadeAnewIsNotWellUntilOthersTrustIt: the links of before go on, since their certificates are
// still valid.
func TestAnAuthorityThatWasMadeAnewIsNotWellUntilOthersTrustIt(t *testing.T) {
	k := newCluster(t)
	k.prober = k.parts
	k.operator("us-east-1", "causalstore:v1")
	k.sample("three-regions.yaml", nil)
	for _, region := range []string{"eu-west-1", "ap-southeast-1"} {
		a, err := trust.Create(region+".other", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		k.peer(trust.Entry{Region: region, TrustDomain: a.TrustDomain, Sequence: a.Sequence, Bundle: a.Bundle()})
	}
	k.awaitCondition("orders", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	r := &rotation{cluster: k, name: "authority-us-east-1"}
	first := r.field(trust.FieldIssuing)
	k.parts.accept(first, "us-east-1", "eu-west-1", "ap-southeast-1")
	k.awaitCondition("orders", v1alpha1.ConditionPeersTrusted, yes, v1alpha1.ReasonRegionsTrusted)

	for _, lost := range []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}} {
		lost.SetNamespace(k.namespace)
		lost.SetName(r.name)
		if err := k.client.Delete(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
	}
	var second string
	k.await("another authority", func() (bool, string) {
		own := &corev1.ConfigMap{}
		if !k.exists(r.name, own) {
			return false, "there is none"
		}
		second = own.Data[trust.FieldIssuing]
		return second != first, second
	})
	k.touch("orders")
	c := k.awaitCondition("orders", v1alpha1.ConditionPeersTrusted, no, v1alpha1.ReasonAuthorityRefused)
	for _, want := range []string{second[:16],
		"data center ap-southeast-1 of region ap-southeast-1; data center eu-west-1 of region eu-west-1;",
		"run: kubectl causal trust --context"} {
		if !strings.Contains(c.Message, want) {
			t.Errorf("the message lacks %q: %s", want, c.Message)
		}
	}
	if strings.Contains(c.Message, "data center us-east-1") {
		t.Errorf("it names the own region: %s", c.Message)
	}
	r.await(trust.FieldRefusedBy, "store "+k.namespace+
		"/orders: data center ap-southeast-1 of region ap-southeast-1; data center eu-west-1")

	k.parts.forget()
	k.parts.accept(second, "us-east-1", "eu-west-1")
	k.parts.accept(first, "ap-southeast-1")
	k.touch("orders")
	k.await("the region that trusts it not to be named any more", func() (bool, string) {
		is := r.field(trust.FieldRefusedBy)
		return strings.HasSuffix(is, "orders: data center ap-southeast-1 of region ap-southeast-1"), is
	})
	k.parts.forget()
	k.parts.accept(second, "us-east-1", "eu-west-1", "ap-southeast-1")
	k.touch("orders")
	k.awaitCondition("orders", v1alpha1.ConditionPeersTrusted, yes, v1alpha1.ReasonRegionsTrusted)
	r.await(trust.FieldRefusedBy, "")
}
