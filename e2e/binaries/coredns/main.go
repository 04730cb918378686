// Command coredns is CoreDNS with what a test cluster asks of it, and nothing for clouds. It is a Go module of its own, so that
// what CoreDNS needs stays out of the go.mod of what is delivered.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	dnsserver.Directives = []string{"errors", "health", "ready", "cache", "kubernetes"} // the order in which they see a query
	coremain.Run()
}
