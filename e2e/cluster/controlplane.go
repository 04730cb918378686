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

// beControlPlane: a switch that all nodes are plugged in to, etcd, and what of Kubernetes is not on nodes.
func (b *bed) beControlPlane(ctx context.Context) error {
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
		go s.keep(name, path, nil, args...)
	}
	go s.bury()
	keep("etcd", b.etcd()...)
	keep("kube-apiserver", b.apiserver()...)
	go pass(listener, addressCP+":6443")
	// The controller manager ends for good where it comes before the roles that the API server makes.
	if err := await(ctx, startTimeout, apiReady); err != nil {
		fmt.Fprintln(os.Stderr, "the API server is not ready, and is waited for no longer:", err)
	}
	keep("kube-controller-manager", b.manager()...)
	keep("kube-scheduler", b.scheduler()...)
	return b.provision(ctx)
}

func (b *bed) makeSwitch(ctx context.Context) error {
	commands := [][]string{{"link", "set", "lo", "up"}, {"link", "add", "switch", "type", "bridge"}, {"addr", "add", addressCP + "/24", "dev", "switch"},
		{"link", "set", "switch", "up"}}
	for _, n := range b.Nodes { // webhooks are called at the addresses of pods
		commands = append(commands, []string{"route", "add", n.pods(), "via", n.address()})
	}
	return errors.Join(ip(ctx, commands), forward())
}

func (b *bed) etcd() []string {
	const clients, peers = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	return []string{"--data-dir=" + b.file("etcd"), "--listen-client-urls=" + clients, "--advertise-client-urls=" + clients, "--listen-peer-urls=" + peers,
		"--initial-advertise-peer-urls=" + peers, "--initial-cluster=default=" + peers, "--unsafe-no-fsync", "--log-level=warn"}
}

func (b *bed) apiserver() []string {
	// Pods leave a dead node after 5 s.
	const tolerated = "5"
	return []string{"--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0", "--secure-port=6443", "--advertise-address=" + addressCP,
		"--service-cluster-ip-range=" + services, "--allow-privileged=true", "--client-ca-file=" + b.pki("ca.crt"),
		"--tls-cert-file=" + b.pki("apiserver.crt"), "--tls-private-key-file=" + b.pki("apiserver.key"),
		"--kubelet-client-certificate=" + b.pki("admin.crt"), "--kubelet-client-key=" + b.pki("admin.key"),
		"--kubelet-preferred-address-types=InternalIP", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + b.pki("service-accounts.key"), "--service-account-signing-key-file=" + b.pki("service-accounts.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--enable-aggregator-routing=true", // webhooks: there is no kube-proxy here that knows Services
		"--default-not-ready-toleration-seconds=" + tolerated, "--default-unreachable-toleration-seconds=" + tolerated, "--profiling=false"}
}

// as are the flags of a client of the API server.
func (b *bed) as(name string) []string {
	file := b.pki(name + ".kubeconfig")
	return []string{"--kubeconfig=" + file, "--authentication-kubeconfig=" + file, "--authorization-kubeconfig=" + file,
		"--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false"}
}

func (b *bed) manager() []string {
	return append(b.as("controller-manager"), "--use-service-account-credentials=true", "--root-ca-file="+b.pki("ca.crt"),
		"--service-account-private-key-file="+b.pki("service-accounts.key"), "--cluster-signing-cert-file="+b.pki("ca.crt"),
		"--cluster-signing-key-file="+b.pki("ca.key"), "--node-monitor-period=1s", "--node-monitor-grace-period=10s",
		"--node-eviction-rate=10", "--secondary-node-eviction-rate=10")
}

func (b *bed) scheduler() []string { return b.as("scheduler") }

// apiReady asks the API server inside of this machine. It says so to anybody.
func apiReady() error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // the answer is nothing to keep, and comes from here
	answer, err := client.Get("https://127.0.0.1:6443/readyz")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 500)) // more than the status is a courtesy
		return fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(text)))
	}
	return nil
}

// pass passes connections on to an address.
func pass(l net.Listener, to string) {
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
				return // the client sees it
			}
			defer target.Close()
			var both sync.WaitGroup
			half := func(dst, src net.Conn) {
				_, _ = io.Copy(dst, src) // an end of either side is an end
				_ = dst.(*net.TCPConn).CloseWrite()
			}
			both.Go(func() { half(target, from) })
			half(from, target)
			both.Wait()
		}()
	}
}
