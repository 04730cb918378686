//go:build !linux

// Command cluster runs a real Kubernetes of several nodes on one Linux machine.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr,
		"cluster: nodes are Linux namespaces; run it on Linux, or set KUBECONFIG to use an existing cluster")
	os.Exit(1)
}
