// Package redirect installs nftables DNAT rules that send a pod's connections to a store's Services to its sidecar, so
// that the app needs no change. It works in the network namespace of the calling process.
//
// The rules are in one table, with one rule per address in the output chain. Installing again replaces the table. It is
// removed with the network namespace.
package redirect

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
)

// table is the name of the nftables table.
const table = "causalstore"

// Registers used by the rules.
const (
	register1 = 1
	register2 = 2
)

// Offsets in the IPv4 and TCP headers, in bytes.
const (
	ipv4Destination = 16
	tcpDestination  = 2
)

// Install redirects TCP connections to any of the addresses in from to the address to. All are IPv4. It needs
// NET_ADMIN.
func Install(from []netip.AddrPort, to netip.AddrPort) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	ours := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: table}
	c.AddTable(ours) // a table that does not exist cannot be deleted
	c.DelTable(ours)
	c.AddTable(ours)
	out := c.AddChain(&nftables.Chain{Name: "output", Table: ours, Type: nftables.ChainTypeNAT,
		Hooknum:  nftables.ChainHookOutput,
		Priority: nftables.ChainPriorityNATDest})
	for _, f := range from {
		c.AddRule(&nftables.Rule{Table: ours, Chain: out, Exprs: rule(f, to)})
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf(
			"install nftables rules: %w; this needs NET_ADMIN and a kernel with nf_tables and nft_chain_nat: if the "+
				"node's kernel lacks them, use injection mode LoopbackNames or Explicit",
			err)
	}
	return nil
}

// rule returns the expressions of: ip daddr FROM tcp dport FROM dnat to TO.
func rule(from, to netip.AddrPort) []expr.Any {
	address, target := from.Addr().As4(), to.Addr().As4()
	return []expr.Any{
		&expr.Payload{DestRegister: register1, Base: expr.PayloadBaseNetworkHeader, Offset: ipv4Destination,
			Len: uint32(len(address))},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register1, Data: address[:]},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register1, Data: []byte{syscall.IPPROTO_TCP}},
		&expr.Payload{DestRegister: register1, Base: expr.PayloadBaseTransportHeader, Offset: tcpDestination, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register1, Data: binaryutil.BigEndian.PutUint16(from.Port())},
		&expr.Immediate{Register: register1, Data: target[:]},
		&expr.Immediate{Register: register2, Data: binaryutil.BigEndian.PutUint16(to.Port())},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(nftables.TableFamilyIPv4), RegAddrMin: register1,
			RegProtoMin: register2},
	}
}
