//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/causalstore/causalstore/e2e/binaries"
)

// runControlPlane runs the network switch of all nodes, etcd, the control plane of Kubernetes, and the volume
// provisioner.
func (b *bed) runControlPlane(ctx context.Context) error {
	const inherited = 3
	syscall.CloseOnExec(inherited)
	listener, err := net.FileListener(os.NewFile(inherited, "api"))
	if err != nil {
		return fmt.Errorf("take over the listener: %w", err)
	}
	m := &mounts{}
	m.private()
	if err := m.err(); err != nil {
		return err
	}
	if err := b.makeSwitch(ctx); err != nil {
		return err
	}
	s := newSupervisor(b.file("log", controlPlane))
	keep := func(name string, args ...string) {
		path, err := binaries.Folder{Dir: b.Binaries}.Path(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		go s.keepRunning(name, path, nil, args...)
	}
	go s.reap()
	keep("etcd", b.etcdFlags()...)
	keep("kube-apiserver", b.apiserverFlags()...)
	go forwardConnections(listener, b.Network.controlPlane()+":6443")
	// The controller manager fails for good if it starts before the API server has created its roles.
	if err := await(ctx, startTimeout, apiReady); err != nil {
		fmt.Fprintln(os.Stderr, "starting controllers although the API server is not ready:", err)
	}
	keep("kube-controller-manager", b.managerFlags()...)
	keep("kube-scheduler", b.schedulerFlags()...)
	return b.provision(ctx)
}

func (b *bed) makeSwitch(ctx context.Context) error {
	commands := [][]string{{"link", "set", "lo", "up"}, {"link", "add", "switch", "type", "bridge"},
		{"addr", "add", b.Network.controlPlane() + "/24", "dev", "switch"},
		{"link", "set", "switch", "up"}}
	for _, n := range b.Nodes { // the API server calls webhooks at pod addresses
		commands = append(commands, []string{"route", "add", n.podCIDR(), "via", n.ip()})
	}
	return errors.Join(runIP(ctx, commands), enableForwarding())
}

func (b *bed) etcdFlags() []string {
	const clients, peers = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	return []string{"--data-dir=" + b.file("etcd"), "--listen-client-urls=" + clients,
		"--advertise-client-urls=" + clients, "--listen-peer-urls=" + peers,
		"--initial-advertise-peer-urls=" + peers, "--initial-cluster=default=" + peers, "--unsafe-no-fsync",
		"--log-level=warn"}
}

func (b *bed) apiserverFlags() []string {
	const tolerated = "5" // seconds until pods are evicted from a dead node
	return []string{"--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0", "--secure-port=6443",
		"--advertise-address=" + b.Network.controlPlane(),
		"--service-cluster-ip-range=" + b.Network.services(), "--allow-privileged=true",
		"--client-ca-file=" + b.pki("ca.crt"),
		"--tls-cert-file=" + b.pki("apiserver.crt"), "--tls-private-key-file=" + b.pki("apiserver.key"),
		"--kubelet-client-certificate=" + b.pki("admin.crt"), "--kubelet-client-key=" + b.pki("admin.key"),
		"--kubelet-preferred-address-types=InternalIP", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + b.pki("service-accounts.key"),
		"--service-account-signing-key-file=" + b.pki("service-accounts.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--enable-aggregator-routing=true", // call webhooks at endpoints: no kube-proxy runs here
		"--default-not-ready-toleration-seconds=" + tolerated, "--default-unreachable-toleration-seconds=" + tolerated,
		"--profiling=false"}
}

// componentFlags returns the flags that connect a component to the API server.
func (b *bed) componentFlags(name string) []string {
	file := b.pki(name + ".kubeconfig")
	return []string{"--kubeconfig=" + file, "--authentication-kubeconfig=" + file, "--authorization-kubeconfig=" + file,
		"--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false"}
}

func (b *bed) managerFlags() []string {
	return append(b.componentFlags("controller-manager"), "--use-service-account-credentials=true",
		"--root-ca-file="+b.pki("ca.crt"),
		"--service-account-private-key-file="+b.pki("service-accounts.key"),
		"--cluster-signing-cert-file="+b.pki("ca.crt"),
		"--cluster-signing-key-file="+b.pki("ca.key"), "--node-monitor-period=1s", "--node-monitor-grace-period=10s",
		"--node-eviction-rate=10", "--secondary-node-eviction-rate=10")
}

func (b *bed) schedulerFlags() []string { return b.componentFlags("scheduler") }

// apiReady asks the API server of this machine whether it is ready. That needs no credentials.
func apiReady() error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // it is local, and the answer is no secret
	resp, err := client.Get("https://127.0.0.1:6443/readyz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500)) // the status alone suffices
		return fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	return nil
}

// forwardConnections connects every client of a listener to an address.
func forwardConnections(l net.Listener, to string) {
	for {
		from, err := l.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, "accept:", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		go func() {
			defer from.Close()
			target, err := net.Dial("tcp", to)
			if err != nil {
				return // closes the client's connection
			}
			defer target.Close()
			var both sync.WaitGroup
			half := func(dst, src net.Conn) {
				_, _ = io.Copy(dst, src) // either side may close first
				_ = dst.(*net.TCPConn).CloseWrite()
			}
			both.Go(func() { half(target, from) })
			half(from, target)
			both.Wait()
		}()
	}
}
