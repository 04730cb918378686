package causalstore_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/trust"
)

// trustOf returns the trust file of a data center.
func (k *cluster) trustOf(configMap string) *contract.Trust {
	k.t.Helper()
	m := &corev1.ConfigMap{}
	k.get(configMap, m)
	t, err := contract.ParseTrust([]byte(m.Data[plan.TrustFile]))
	if err != nil {
		k.t.Fatalf("%s of %s: %v", plan.TrustFile, configMap, err)
	}
	return t
}

// certificate returns a certificate of a Secret, as a part that has a trust file accepts it at the time of the
// operators.
func (k *cluster) certificate(secret, name string, by *contract.Trust) *x509.Certificate {
	k.t.Helper()
	s := &corev1.Secret{}
	k.get(secret, s)
	pair, err := tls.X509KeyPair(s.Data[trust.CertFile(name)], s.Data[trust.KeyFile(name)])
	if err != nil {
		k.t.Fatalf("%s of Secret %s: %v", name, secret, err)
	}
	id, err := contract.ParseIdentity(pair.Leaf.URIs[0])
	if err != nil || id.StoreID != by.StoreID || id.TrustDomain != by.DataCenters[id.DataCenter] {
		k.t.Errorf("%s of Secret %s is of %s: %v", name, secret, id, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(by.Bundles[id.TrustDomain]))
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: k.clock.now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		k.t.Errorf("%s of Secret %s: %v", name, secret, err)
	}
	return pair.Leaf
}

// touch makes the operator look at a store.
func (k *cluster) touch(store string) {
	k.t.Helper()
	k.update(store, func(s *v1alpha1.CausalStore) {
		s.Annotations = map[string]string{"touched": time.Now().String()}
	})
}

func TestEveryPartGetsACertificateThatIsRenewedEveryDay(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("try", v1alpha1.ConditionCertificatesCurrent, yes, v1alpha1.ReasonCertificatesRenewed)
	k.awaitCondition("try", v1alpha1.ConditionPeersTrusted, yes, v1alpha1.ReasonOneRegion)
	known := k.trustOf("try-here")
	if known.StoreID != string(k.store("try").UID) || !strings.HasPrefix(known.DataCenters["here"], "local.") {
		t.Errorf("store %s, trust domains %v", known.StoreID, known.DataCenters)
	}
	serials := map[string]string{}
	for secret, names := range map[string][]string{"try-here-coordinator-tls": {"0"}, "try-here-cache-tls": {"0"},
		"try-here-middleman-tls": {"0", "1"}, "try-here-sidecar-tls": {"tls"}} {
		for _, name := range names {
			serials[secret+" "+name] = k.certificate(secret, name, known).SerialNumber.String()
		}
	}
	is := k.certificate("try-here-sidecar-tls", "tls", known).URIs[0].Path
	if want := "/" + known.StoreID + "/dc/here/sidecar/" + k.namespace; is != want {
		t.Errorf("sidecars are %s, want %s", is, want)
	}
	before := k.uids()
	k.clock.ahead.Store(int64(25 * time.Hour))
	k.touch("try")
	for what, was := range serials {
		secret, name, _ := strings.Cut(what, " ")
		k.await("renewal of "+what, func() (bool, string) {
			return k.certificate(secret, name, known).SerialNumber.String() != was, "it is the old one"
		})
	}
	// A Secret that is deleted is made again, and a paused store's certificates are renewed anyway.
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Paused = true })
	k.awaitCondition("try", v1alpha1.ConditionPaused, yes, v1alpha1.ReasonPaused)
	was := k.certificate("try-here-coordinator-tls", "0", known).SerialNumber.String()
	k.clock.ahead.Store(int64(50 * time.Hour))
	k.touch("try")
	k.await("renewal while paused", func() (bool, string) {
		return k.certificate("try-here-coordinator-tls", "0", known).SerialNumber.String() != was, "it is the old one"
	})
	if d := cmp.Diff(before, k.uids()); d != "" {
		t.Errorf("pods restarted (-before +after):\n%s", d)
	}
}

func TestASecretOfSomebodyElseIsNotUsedForCertificates(t *testing.T) {
	k := newCluster(t)
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: "try-here-cache-tls",
		Labels: plan.Labels("try")},
		Data: map[string][]byte{"theirs": []byte("yes")}}
	k.create(theirs)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	c := k.awaitCondition("try", v1alpha1.ConditionTopologyValid, no, v1alpha1.ReasonObjectConflict)
	if !strings.Contains(c.Message, "Secret try-here-cache-tls exists and was not made for this store") {
		t.Error(c.Message)
	}
	if k.exists("try-here-coordinator-tls", &corev1.Secret{}) {
		t.Error("other certificates were issued")
	}
	now := &corev1.Secret{}
	if k.get("try-here-cache-tls", now); now.ResourceVersion != theirs.ResourceVersion {
		t.Error("it was changed")
	}
	if err := k.client.Delete(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
}

func TestALostAuthorityIsNotReplacedInSilence(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	known := k.trustOf("try-here")
	secret := &corev1.Secret{}
	k.get("authority-local", secret)
	backup := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: secret.Name,
		Labels: secret.Labels}, Data: secret.Data}
	if err := k.client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	c := k.awaitCondition("try", v1alpha1.ConditionCertificatesCurrent, no, v1alpha1.ReasonCertificatesNotRenewed)
	if !strings.Contains(c.Message, "restore it from a backup") ||
		!strings.Contains(c.Message, "the first certificate expires in 168h") {
		t.Error(c.Message)
	}
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady) // they go on
	if d := cmp.Diff(known, k.trustOf("try-here")); d != "" {
		t.Errorf("parts trust another authority:\n%s", d)
	}
	k.create(backup)
	k.awaitCondition("try", v1alpha1.ConditionCertificatesCurrent, yes, v1alpha1.ReasonCertificatesRenewed)
	k.certificate("try-here-coordinator-tls", "0", known)
}

// peer writes what the operators should know of another region.
func (k *cluster) peer(e trust.Entry) {
	k.t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: "peer-" + e.TrustDomain,
		Labels: map[string]string{trust.Label: trust.KindPeer}},
		Data: e.Data()}
	if err := k.client.Delete(k.t.Context(), m.DeepCopy()); client.IgnoreNotFound(err) != nil {
		k.t.Fatal(err)
	}
	k.create(m)
}

func TestOtherRegionsAreTrustedByTheirBundleAndRevokedByATombstone(t *testing.T) {
	k := newCluster(t)
	k.operator("us-east-1", "causalstore:v1")
	k.sample("three-regions.yaml", nil)
	c := k.awaitCondition("orders", v1alpha1.ConditionPeersTrusted, no, v1alpha1.ReasonRegionsNotTrusted)
	for _, want := range []string{"eu-west-1 (eu-west-1), ap-southeast-1 (ap-southeast-1)",
		"kubectl causal trust --context"} {
		if !strings.Contains(c.Message, want) {
			t.Errorf("the message lacks %q: %s", want, c.Message)
		}
	}
	entries := map[string]trust.Entry{}
	for _, region := range []string{"eu-west-1", "ap-southeast-1"} {
		a, err := trust.Create(region+".other", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		entries[region] = trust.Entry{Region: region, TrustDomain: a.TrustDomain, Sequence: a.Sequence,
			Bundle: a.Bundle()}
		k.peer(entries[region])
	}
	k.awaitCondition("orders", v1alpha1.ConditionPeersTrusted, yes, v1alpha1.ReasonRegionsTrusted)
	domains := func() []string {
		known := k.trustOf("orders-us-east-1")
		var all []string
		for dc, domain := range known.DataCenters {
			if known.Bundles[domain] == "" {
				t.Errorf("trust domain %s has no bundle", domain)
			}
			all = append(all, dc)
		}
		slices.Sort(all)
		return all
	}
	k.await("three regions in the trust file", func() (bool, string) {
		return len(domains()) == 3, fmt.Sprint(domains())
	})
	k.await("pods to be notified", func() (bool, string) {
		m := &corev1.ConfigMap{}
		k.get("orders-us-east-1", m)
		var pods corev1.PodList
		if err := k.client.List(t.Context(), &pods, client.InNamespace(k.namespace)); err != nil {
			t.Fatal(err)
		}
		for _, p := range pods.Items {
			if p.Annotations[plan.AnnotationTrust] != plan.TrustDigest(m.Data[plan.TrustFile]) {
				return false, p.Name
			}
		}
		return len(pods.Items) > 0, "no pods"
	})
	eu := entries["eu-west-1"]
	k.update("orders", func(s *v1alpha1.CausalStore) { s.Spec.Paused = true }) // revocation does not wait
	k.peer(trust.Entry{Region: eu.Region, TrustDomain: eu.TrustDomain, Revoked: true})
	c = k.awaitCondition("orders", v1alpha1.ConditionPeersTrusted, no, v1alpha1.ReasonRegionsRevoked)
	if !strings.Contains(c.Message, "eu-west-1 (eu-west-1)") {
		t.Error(c.Message)
	}
	k.await("two regions in the trust file", func() (bool, string) {
		return len(domains()) == 2, fmt.Sprint(domains())
	})
	// Somebody writes the bundle again, newer than before. The tombstone stays.
	eu.Sequence++
	k.peer(eu)
	ap := entries["ap-southeast-1"]
	newer, err := trust.Create(ap.TrustDomain, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ap.Sequence, ap.Bundle = ap.Sequence+1, newer.Bundle()
	k.peer(ap) // when this is in the trust file, the operator has seen the other one as well
	k.await("the newer bundle", func() (bool, string) {
		return k.trustOf("orders-us-east-1").Bundles[ap.TrustDomain] == ap.Bundle, "it is the old one"
	})
	if got := domains(); len(got) != 2 {
		t.Errorf("a revoked region is trusted again: %v", got)
	}
	k.peer(entries["ap-southeast-1"])
	c = k.awaitCondition("orders", v1alpha1.ConditionPeersTrusted, no, v1alpha1.ReasonRegionsRevoked)
	k.await("the refusal of the older bundle", func() (bool, string) {
		c = k.awaitCondition("orders", v1alpha1.ConditionPeersTrusted, no, v1alpha1.ReasonRegionsRevoked)
		return strings.Contains(c.Message, "is older than"), c.Message
	})
	if k.trustOf("orders-us-east-1").Bundles[ap.TrustDomain] != ap.Bundle {
		t.Error("an older bundle came back")
	}
}

func TestADamagedRecordOfTrustStopsNothingElse(t *testing.T) {
	k := newCluster(t)
	k.operator("us-east-1", "causalstore:v1")
	k.sample("three-regions.yaml", nil)
	for _, region := range []string{"eu-west-1", "ap-southeast-1"} {
		a, err := trust.Create(region+".other", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		k.peer(trust.Entry{Region: region, TrustDomain: a.TrustDomain, Sequence: a.Sequence, Bundle: a.Bundle()})
	}
	k.awaitCondition("orders", v1alpha1.ConditionPeersTrusted, yes, v1alpha1.ReasonRegionsTrusted)
	record := &corev1.ConfigMap{}
	k.get(trust.RecordName("authority-us-east-1"), record)
	was := record.Data["eu-west-1.other"]
	record.Data["junk"], record.Data["eu-west-1.other"] = "garbage", was[1:]
	delete(record.Labels, plan.LabelManagedBy)
	if err := k.client.Update(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	// Only the region whose entry is damaged is not trusted: it may have been revoked.
	k.await("the damaged entries to be named", func() (bool, string) {
		c := k.awaitCondition("orders", v1alpha1.ConditionPeersTrusted, no, v1alpha1.ReasonRegionsNotTrusted)
		return strings.Contains(c.Message, "trust domain junk") &&
			strings.Contains(c.Message, "trust domain eu-west-1.other: its entry") &&
			!strings.Contains(c.Message, "ap-southeast-1 ("), c.Message
	})
	// The store is still looked after.
	k.update("orders", func(s *v1alpha1.CausalStore) {
		s.Spec.Access = v1alpha1.Access{
			Namespaces: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}},
		}
	})
	k.await("the change to be applied", func() (bool, string) {
		s := k.store("orders")
		return s.Status.ObservedGeneration == s.Generation,
			fmt.Sprintf("generation %d, observed %d", s.Generation, s.Status.ObservedGeneration)
	})
	k.get(record.Name, record)
	delete(record.Data, "junk")
	record.Data["eu-west-1.other"] = was
	if err := k.client.Update(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	k.awaitCondition("orders", v1alpha1.ConditionPeersTrusted, yes, v1alpha1.ReasonRegionsTrusted)
}

func TestARestoredAuthorityIsPublishedAnew(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	secret, own := &corev1.Secret{}, &corev1.ConfigMap{}
	k.get("authority-local", secret)
	backup := secret.Data
	k.get("authority-local", own)
	published := func() (e trust.Entry) {
		k.get("authority-local", own)
		e, err := trust.ReadEntry(own)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first := published()
	for _, verb := range []string{trust.RotateBegin, trust.RotateForce} {
		before := published()
		fingerprint := own.Data[trust.FieldIssuing]
		if verb == trust.RotateForce {
			fingerprint = own.Data[trust.FieldNext]
		}
		own.Annotations = map[string]string{trust.AnnotationRotate: trust.RotationRequest(verb, fingerprint)}
		if err := k.client.Update(t.Context(), own); err != nil {
			t.Fatal(err)
		}
		k.await("the rotation to "+verb, func() (bool, string) {
			return published().Sequence > before.Sequence, "it has not"
		})
	}
	rotated := published()
	k.await("the backup to be restored", func() (bool, string) {
		k.get("authority-local", secret)
		secret.Data = backup
		err := k.client.Update(t.Context(), secret)
		return err == nil, fmt.Sprint(err)
	})
	k.await("the bundle of the backup with a later sequence", func() (bool, string) {
		e := published()
		return e.Bundle == first.Bundle && e.Sequence > rotated.Sequence,
			fmt.Sprintf("sequence %d after %d, same bundle as the backup: %v", e.Sequence, rotated.Sequence,
				e.Bundle == first.Bundle)
	})
}
