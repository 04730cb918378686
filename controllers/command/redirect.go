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
		Short: "Lead connections to a store's Service to the sidecar; run in pods that are injected with mode Redirect",
		Long: `Sets rules of nftables in the network namespace that it runs in, which should be that of a pod: TCP connections to each --from go to --to.
It needs NET_ADMIN, and ends at once. Run again, it replaces its rules.`,
		Example: `  causalstore redirect --from 10.96.0.10:6379 --to 127.67.83.1:6379`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			sources := make([]netip.AddrPort, len(from))
			var errs []error
			for i, text := range from {
				var err error
				sources[i], err = ipv4("from", text)
				errs = append(errs, err)
			}
			target, err := ipv4("to", to)
			if err := errors.Join(append(errs, err)...); err != nil {
				return err
			}
			return redirect.Set(sources, target)
		},
	}
	cmd.Flags().StringArrayVar(&from, "from", nil, "IPv4 address:port that clients connect to; may be given several times (required)")
	cmd.Flags().StringVar(&to, "to", "", "IPv4 address:port that they reach (required)")
	_ = cmd.MarkFlagRequired("from") // they exist
	_ = cmd.MarkFlagRequired("to")
	return cmd
}

func ipv4(flag, text string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(text)
	if err != nil || !a.Addr().Is4() {
		return a, fmt.Errorf("--%s %q: give an IPv4 address with a port, such as 10.96.0.10:6379", flag, text)
	}
	return a, nil
}
