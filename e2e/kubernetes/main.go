// Command kube is etcd and kube-apiserver in one binary, for tests against the real API server: it is what it is called by,
// so it is linked under both names. It is a Go module of its own, so that what Kubernetes needs stays out of the go.mod of
// what is delivered. `make kubernetes` builds it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(app.NewAPIServerCommand()))
	default:
		fmt.Fprintf(os.Stderr, "%s: call it as etcd or kube-apiserver\n", name)
		os.Exit(2)
	}
}
