//go:build !linux

// Package redirect leads connections to some addresses to another one, where there is nftables: on Linux.
package redirect

import (
	"errors"
	"net/netip"
)

// Set fails.
func Set([]netip.AddrPort, netip.AddrPort) error {
	return errors.New("connections can be redirected on Linux only")
}
