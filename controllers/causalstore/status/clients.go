package status

import (
	"fmt"
	"strings"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// clientsReady holds if the Secrets that spec.clients names are there and can be used.
func clientsReady(v *view) verdict {
	switch s := &v.Clients; {
	case len(s.Missing) > 0:
		return no(v1alpha1.ReasonSecretMissing, "%s", strings.Join(append(s.Missing, s.Invalid...), "; "))
	case len(s.Invalid) > 0:
		return no(v1alpha1.ReasonSecretInvalid, "%s", strings.Join(s.Invalid, "; "))
	}
	return yes(v1alpha1.ReasonClientsConfigured, "%s", describeClients(&v.Store.Spec.Clients))
}

// describeClients says how clients connect.
func describeClients(c *v1alpha1.Clients) string {
	who, sidecars := "any client", "sidecars ask for no password"
	if c.UsersSecret != "" {
		who = "the users of Secret " + c.UsersSecret
	}
	if c.SidecarPasswords {
		sidecars = "sidecars accept " + who
	}
	f := &c.Front
	switch {
	case !f.IsEnabled():
		return "the front is off: only pods with a sidecar can connect; " + sidecars
	case f.TLS == nil:
		return fmt.Sprintf("fronts accept %s at port %d, without TLS; %s", who, plan.PortRedis, sidecars)
	case f.TLS.Plaintext:
		return fmt.Sprintf("fronts accept %s at port %d with TLS, and at port %d without; %s", who, plan.PortRedisTLS,
			plan.PortRedis, sidecars)
	}
	return fmt.Sprintf("fronts accept %s at port %d, with TLS; %s", who, plan.PortRedisTLS, sidecars)
}
