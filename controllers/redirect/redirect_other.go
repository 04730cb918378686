//go:build !linux

// Package redirect installs nftables DNAT rules that send a pod's store connections to its sidecar. It works on Linux
// only.
package redirect

import (
	"errors"
	"net/netip"
)

// Install fails.
func Install([]netip.AddrPort, netip.AddrPort) error {
	return errors.New("redirecting connections is supported on Linux only")
}
