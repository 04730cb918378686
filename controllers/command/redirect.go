package command

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/controllers/redirect"
)

// NewRedirectCommand returns `causalstore redirect`.
func NewRedirectCommand() *cobra.Command {
	var from []string
	var to string
	cmd := &cobra.Command{
		Use:   "redirect",
		Short: "Redirect a pod's connections to a store's Services to its sidecar (injection mode Redirect)",
		Long: `Installs nftables rules in the network namespace that it runs in, which should be
that of a pod: TCP connections to each --from are redirected to --to. It needs NET_ADMIN, and exits
at once. Running it again replaces the rules.`,
		Example: `  causalstore redirect --from 10.96.0.10:6379 --to 127.67.83.1:6379`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			sources := make([]netip.AddrPort, len(from))
			var errs []error
			for i, text := range from {
				var err error
				sources[i], err = parseIPv4("from", text)
				errs = append(errs, err)
			}
			target, err := parseIPv4("to", to)
			if err := errors.Join(append(errs, err)...); err != nil {
				return err
			}
			return redirect.Install(sources, target)
		},
	}
	cmd.Flags().StringArrayVar(&from, "from", nil, "IPv4 address:port that clients connect to; repeatable (required)")
	cmd.Flags().StringVar(&to, "to", "", "IPv4 address:port to redirect them to (required)")
	_ = cmd.MarkFlagRequired("from") // the flags exist
	_ = cmd.MarkFlagRequired("to")
	return cmd
}

func parseIPv4(flag, text string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(text)
	if err != nil || !a.Addr().Is4() {
		return a, fmt.Errorf("--%s %q: use an IPv4 address with a port, such as 10.96.0.10:6379", flag, text)
	}
	return a, nil
}
