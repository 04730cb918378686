// Package redirect leads connections to some addresses to another one, in the network namespace that it is called in: that of a pod,
// whose app goes on to connect to a store's Service and gets its sidecar.
//
// It is one table of nftables with one rule for each address, on what goes out. Another call replaces it; the end of the network
// namespace ends it.
package redirect

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
)

// table is the name of the table.
const table = "causalstore"

// Registers that the rules use.
const (
	register1 = 1
	register2 = 2
)

// Offsets in the headers of IPv4 and TCP, in bytes.
const (
	ipv4Destination = 16
	tcpDestination  = 2
)

// Set leads TCP connections from one of the addresses to another one. All are IPv4. It needs the right NET_ADMIN.
func Set(from []netip.AddrPort, to netip.AddrPort) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	ours := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: table}
	c.AddTable(ours) // what is not there cannot be deleted
	c.DelTable(ours)
	c.AddTable(ours)
	out := c.AddChain(&nftables.Chain{Name: "output", Table: ours, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput,
		Priority: nftables.ChainPriorityNATDest})
	for _, f := range from {
		c.AddRule(&nftables.Rule{Table: ours, Chain: out, Exprs: rule(f, to)})
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("set rules of nftables: %w; it needs NET_ADMIN, and a kernel with nf_tables and nft_chain_nat: if the node has none, use injection mode LoopbackNames or Explicit",
			err)
	}
	return nil
}

// rule is: ip daddr FROM tcp dport FROM dnat to TO.
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
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(nftables.TableFamilyIPv4), RegAddrMin: register1, RegProtoMin: register2},
	}
}
