package kubectl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/trust"
)

// regionFlags select the operators of several clusters.
type regionFlags struct {
	contextFlags
	namespace string
	yes       bool
}

func (f *regionFlags) register(cmd *cobra.Command) {
	f.contextFlags.register(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.namespace, "operator-namespace", "",
		"namespace of the operators; default: found by their ConfigMaps, which needs the right to list them in "+
			"all namespaces")
	fs.BoolVar(&f.yes, "yes", false, "do not ask")
}

// region is the operator of a region.
type region struct {
	context   string
	k         *connection
	namespace string
	own       *corev1.ConfigMap
	entry     trust.Entry
}

// String returns how users know the region.
func (r *region) String() string {
	if r.context == "" {
		return fmt.Sprintf("%s (namespace %s)", r.entry.Region, r.namespace)
	}
	return fmt.Sprintf("%s (context %s, namespace %s)", r.entry.Region, r.context, r.namespace)
}

// connectRegions returns the operators of all selected clusters.
func (c *cluster) connectRegions(ctx context.Context, f *regionFlags) ([]*region, error) {
	var all []*region
	for _, of := range c.selected(&f.contextFlags) {
		k, err := of.connect()
		if err != nil {
			return nil, err
		}
		found, err := k.findRegions(ctx, of.context, f.namespace)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if slices.ContainsFunc(all, func(o *region) bool {
				return o.entry.TrustDomain == r.entry.TrustDomain && o.own.UID == r.own.UID
			}) {
				continue // two contexts of one cluster
			}
			all = append(all, r)
		}
	}
	return all, nil
}

// findRegions returns the operators of a cluster: those that have published the bundle of their authority.
func (k *connection) findRegions(ctx context.Context, name, namespace string) ([]*region, error) {
	var maps corev1.ConfigMapList
	err := k.List(ctx, &maps, client.InNamespace(namespace), client.MatchingLabels{trust.Label: trust.KindOwn})
	where := "the cluster"
	if name != "" {
		where = "context " + name
	}
	if apierrors.IsForbidden(err) && namespace == "" {
		return nil, fmt.Errorf("list ConfigMaps in all namespaces of %s: %w; set --operator-namespace", where, err)
	}
	if err != nil {
		return nil, fmt.Errorf("list ConfigMaps of %s: %w", where, err)
	}
	if len(maps.Items) == 0 {
		return nil,
			fmt.Errorf(
				"no operator of %s has published an authority (a ConfigMap with label %s=%s); install the chart "+
					"there, and see the operator's log", where, trust.Label, trust.KindOwn)
	}
	var all []*region
	for i := range maps.Items {
		m := &maps.Items[i]
		e, err := trust.ReadEntry(m)
		if err != nil {
			return nil, fmt.Errorf("%s, namespace %s: %w", where, m.Namespace, err)
		}
		all = append(all, &region{context: name, k: k, namespace: m.Namespace, own: m, entry: e})
	}
	return all, nil
}

// record returns what the operator of a region has recorded of others, by trust domain, and the ConfigMap, or nil.
func (r *region) record(ctx context.Context) (map[string]trust.Entry, *corev1.ConfigMap, error) {
	m := &corev1.ConfigMap{}
	err := r.k.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: trust.RecordName(r.own.Name)}, m)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read what %s trusts: %w", r, err)
	}
	all, _ := trust.ReadRecord(m.Data) // the status says what is damaged
	return all, m, nil
}

// peers returns the ConfigMaps about other regions in the operator's namespace, whoever has written them.
func (r *region) peers(ctx context.Context) ([]corev1.ConfigMap, error) {
	var all corev1.ConfigMapList
	if err := r.k.List(ctx, &all, client.InNamespace(r.namespace),
		client.MatchingLabels{trust.Label: trust.KindPeer}); err != nil {
		return nil, fmt.Errorf("list ConfigMaps of %s: %w", r, err)
	}
	return all.Items, nil
}

// peerMap returns the ConfigMap about another trust domain in the operator's namespace, and whether it exists.
func (r *region) peerMap(ctx context.Context, trustDomain string) (*corev1.ConfigMap, bool, error) {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace,
		Name: "causalstore-trust." + trustDomain}}
	err := r.k.Get(ctx, client.ObjectKeyFromObject(m), m)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, false, fmt.Errorf("read ConfigMap %s of %s: %w", m.Name, r, err)
	}
	return m, err == nil, nil
}

// writePeer writes what a region should know of a trust domain.
func (r *region) writePeer(ctx context.Context, e trust.Entry) error {
	m, exists, err := r.peerMap(ctx, e.TrustDomain)
	if err != nil {
		return err
	}
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	m.Labels[trust.Label], m.Data = trust.KindPeer, e.Data()
	if exists {
		err = r.k.Update(ctx, m, client.FieldOwner(PluginName))
	} else {
		err = r.k.Create(ctx, m, client.FieldOwner(PluginName))
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s of %s: %w", m.Name, r, err)
	}
	return nil
}

// writeFingerprints lists the authorities of regions, for people to compare.
func writeFingerprints(w io.Writer, regions []*region) error {
	for _, r := range regions {
		all, err := trust.ParseBundle(r.entry.Bundle, r.entry.TrustDomain)
		if err != nil {
			return fmt.Errorf("read the bundle of %s: %w", r, err)
		}
		fmt.Fprintf(w, "%s\n  trust domain  %s\n  sequence      %d\n", r, r.entry.TrustDomain, r.entry.Sequence)
		for _, c := range all {
			fmt.Fprintf(w, "  SHA-256       %s, valid until %s\n", trust.Fingerprint(c),
				c.NotAfter.UTC().Format("2006-01-02"))
		}
	}
	return nil
}

// refusals says which data centers do not accept the authority that issues certificates in a region, or "".
func (r *region) refusals() string {
	refusedBy := r.own.Data[trust.FieldRefusedBy]
	if refusedBy == "" {
		return ""
	}
	return fmt.Sprintf(
		"%s: the authority that issues, %s, is not trusted by these, as its parts hear from them:\n  %s\n"+
			"Run kubectl causal trust with --context for their region and for %s. Those that have just been told "+
			"follow within a minute\n",
		r, short(r.own.Data[trust.FieldIssuing]), strings.ReplaceAll(refusedBy, "\n", "\n  "), r.entry.Region)
}

// errNotConfirmed is returned if the user does not agree.
var errNotConfirmed = errors.New("nothing was changed")

// confirm asks the user, unless --yes was given.
func (f *regionFlags) confirm(cmd *cobra.Command) error {
	if f.yes {
		return nil
	}
	fmt.Fprint(cmd.OutOrStdout(), "Continue? Type yes: ")
	line, _ := bufio.NewReader(io.LimitReader(cmd.InOrStdin(), 100)).ReadString('\n') // an end without an answer is no
	if strings.TrimSpace(line) != "yes" {
		return errNotConfirmed
	}
	return nil
}
