package kubectl

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

func (c *cluster) pause(cmd *cobra.Command, name string, paused bool) error {
	k, err := c.connect()
	if err != nil {
		return err
	}
	s, err := k.findStore(cmd.Context(), name)
	if err != nil {
		return err
	}
	return setPaused(cmd.Context(), cmd.OutOrStdout(), k, s, paused)
}

// setPaused sets spec.paused of a store and writes the effect. It patches no other field, so concurrent changes are
// kept.
func setPaused(ctx context.Context, w io.Writer, k client.Client, s *v1alpha1.CausalStore, paused bool) error {
	name := s.Namespace + "/" + s.Name
	if s.Spec.Paused == paused {
		_, err := fmt.Fprintf(w, "%s: nothing to do, spec.paused is already %t\n", name, paused)
		return err
	}
	body := fmt.Appendf(nil, `{"spec":{"paused":%t}}`, paused)
	if err := k.Patch(ctx, s, client.RawPatch(types.MergePatchType, body), client.FieldOwner(PluginName)); err != nil {
		return fmt.Errorf("set spec.paused of %s: %w", name, err)
	}
	effect := "the operator of this cluster applies changes again"
	if paused {
		effect = fmt.Sprintf(
			"the operator of this cluster changes nothing until you run: kubectl causal resume %s --namespace %s",
			s.Name, s.Namespace)
	}
	_, err := fmt.Fprintf(w, "%s: spec.paused is %t: %s\n", name, paused, effect)
	return err
}
