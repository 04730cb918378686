//go:build !linux

// Command cluster makes a real Kubernetes of several nodes on one Linux machine.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "cluster: nodes are made of Linux namespaces; run it on Linux, or set KUBECONFIG to use a cluster that there is")
	os.Exit(1)
}
