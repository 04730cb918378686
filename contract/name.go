package contract

import (
	"net"
	"strconv"
)

// PartName returns the name of a part: <role>-<index>.<data center>.<store id>. It is the same in every cluster and
// independent of the names of Kubernetes objects. Parts of other regions are dialed by it: it is the TLS server name by
// which an edge finds the part. DNS does not know it.
func PartName(role Role, index int, dataCenter, storeID string) string {
	return string(role) + "-" + strconv.Itoa(index) + "." + dataCenter + "." + storeID
}

// MemberName returns the name of a member of a part's group: <role>-<index>-<member>.<data center>.<store id>, and for
// the first member that of the part.
func MemberName(role Role, index, member int, dataCenter, storeID string) string {
	if member == 1 {
		return PartName(role, index, dataCenter, storeID)
	}
	return string(role) + "-" + strconv.Itoa(index) + "-" + strconv.Itoa(member) + "." + dataCenter + "." + storeID
}

// PartAddress returns PartName with the port of parts, as host:port.
func PartAddress(role Role, index int, dataCenter, storeID string) string {
	return MemberAddress(role, index, 1, dataCenter, storeID)
}

// MemberAddress returns MemberName with the port of parts, as host:port.
func MemberAddress(role Role, index, member int, dataCenter, storeID string) string {
	return net.JoinHostPort(MemberName(role, index, member, dataCenter, storeID), strconv.Itoa(DefaultPartsPort))
}
