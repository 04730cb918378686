package contract

import (
	"net"
	"strconv"
)

// PartName returns the name of a part: <role>-<index>.<data center>.<store id>. It is the same in every cluster and independent of the
// names of Kubernetes objects. Parts of other regions are dialed by it: it is the TLS server name by which an edge finds the part. DNS
// does not know it.
func PartName(role Role, index int, dataCenter, storeID string) string {
	return string(role) + "-" + strconv.Itoa(index) + "." + dataCenter + "." + storeID
}

// PartAddress returns PartName with the port of parts, as host:port.
func PartAddress(role Role, index int, dataCenter, storeID string) string {
	return net.JoinHostPort(PartName(role, index, dataCenter, storeID), strconv.Itoa(DefaultPartsPort))
}
