//go:build linux

package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/causalstore/causalstore/e2e/binaries"
)

//go:embed addons.yaml
var addons string

// portAPI is the preferred port of the API server on the host.
const portAPI = 16443

// up starts the machines of a cluster that are not running. An existing cluster keeps its nodes; chosen is set if the
// user has asked for those of b.
func up(ctx context.Context, b *bed, chosen bool) error {
	started := time.Now()
	report := func(format string, args ...any) {
		fmt.Printf("%5.1f s  %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
	}
	if err := preflight(ctx); err != nil {
		return err
	}
	if existing, err := openBed(b.dir); err == nil {
		if chosen && !slices.Equal(existing.Nodes, b.Nodes) {
			return fmt.Errorf(
				"the cluster in %s has %d nodes in zones %s, and not what the flags say; remove it with `cluster "+
					"down`, or leave the flags out",
				b.dir, len(existing.Nodes), strings.Join(existing.zones(), ", "))
		}
		b = existing
	}
	folder, err := binaries.FindOrBuild(ctx, os.Stdout, binaries.All()...)
	if err != nil {
		return err
	}
	b.Binaries = folder.Dir
	if err := b.prepare(); err != nil {
		return err
	}
	report("using the binaries in %s", folder.Dir)
	if err := b.startAll(ctx); err != nil {
		return err
	}
	report("started %d nodes and the control plane", len(b.Nodes))
	images, err := b.baseImages(ctx)
	if err != nil {
		return err
	}
	if err := b.loadImages(ctx, images); err != nil {
		return err
	}
	report("the nodes have their images")
	if err := b.apply(ctx, []byte(strings.ReplaceAll(addons, "{{.DNS}}", b.Network.dns()))); err != nil {
		return err
	}
	if err := b.awaitNodes(ctx); err != nil {
		return err
	}
	report("all nodes are ready")
	if err := b.awaitDNS(ctx); err != nil {
		return err
	}
	report("the cluster is up; export KUBECONFIG=%s", b.kubeconfig())
	return nil
}

// prepare creates the directory of the cluster.
func (b *bed) prepare() error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	if err := b.save(); err != nil {
		return err
	}
	if err := b.raiseInotifyLimit(); err != nil {
		return fmt.Errorf("raise fs.inotify.max_user_instances: %w", err)
	}
	if b.runningPID(controlPlane) != 0 {
		return nil
	}
	return b.copyProgram()
}

// copyProgram copies this program, which machines run, because `go run` removes the original.
func (b *bed) copyProgram() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	unfinished := b.file("cluster.new")
	return errors.Join(os.WriteFile(unfinished, text, 0o755), os.Rename(unfinished, b.file("cluster")))
}

// startAll starts the machines that are not running. If the control plane is not, it restarts all nodes, which lost
// their network.
func (b *bed) startAll(ctx context.Context) error {
	if b.runningPID(controlPlane) == 0 {
		for _, n := range b.Nodes {
			if err := b.stopMachine(ctx, n.Name); err != nil {
				return err
			}
		}
		l, err := b.listenForClients()
		if err != nil {
			return fmt.Errorf("listen for clients of the API server: %w", err)
		}
		defer l.Close()
		if err := b.makeCertificates(b.Port); err != nil {
			return fmt.Errorf("make certificates: %w", err)
		}
		if err := b.startControlPlane(l.(*net.TCPListener)); err != nil {
			return err
		}
		if err := os.RemoveAll(b.file("cuts.json")); err != nil { // the new switch has none
			return err
		}
	}
	if err := b.awaitAPI(ctx); err != nil {
		return err
	}
	var errs []error
	for _, n := range b.Nodes {
		errs = append(errs, b.startNode(ctx, n))
	}
	return errors.Join(errs...)
}

// listenForClients listens on the host for clients of the API server: on the previous port, or else on a free one.
func (b *bed) listenForClients() (net.Listener, error) {
	if b.Port != 0 {
		return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", b.Port))
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", portAPI))
	if err != nil { // probably used by another cluster
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, err
	}
	b.Port = l.Addr().(*net.TCPAddr).Port
	return l, b.save()
}

func (b *bed) client() (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", b.kubeconfig())
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

func (b *bed) awaitAPI(ctx context.Context) error {
	client, err := b.client()
	if err != nil {
		return err
	}
	err = await(ctx, startTimeout, func() error {
		if b.runningPID(controlPlane) == 0 {
			return errors.New("its machine is not running")
		}
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("the API server is not ready: %w\n%s\n%s", err,
			logTail(b.file("log", controlPlane, "machine.log")),
			logTail(b.file("log", controlPlane, "kube-apiserver.log")))
	}
	return nil
}

// awaitNodes waits until all nodes are ready. The state that the API server keeps from a previous boot does not count.
func (b *bed) awaitNodes(ctx context.Context) error {
	client, err := b.client()
	if err != nil {
		return err
	}
	return await(ctx, startTimeout, func() error {
		var errs []error
		for _, n := range b.Nodes {
			if err := b.nodeReady(ctx, client, n); err != nil {
				errs = append(errs, fmt.Errorf("%s is not ready: %w; see %s", n.Name, err, b.file("log", n.Name)))
			}
		}
		return errors.Join(errs...)
	})
}

func (b *bed) nodeReady(ctx context.Context, client kubernetes.Interface, n node) error {
	boot, err := os.ReadFile(b.file("nodes", n.Name, "boot-id"))
	if err != nil {
		return err
	}
	registered, err := client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if registered.Status.NodeInfo.BootID != strings.TrimSpace(string(boot)) {
		return errors.New("kubelet has not reported since the start")
	}
	for _, c := range registered.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return errors.New("kubelet reports NotReady")
}

func (b *bed) awaitDNS(ctx context.Context) error {
	client, err := b.client()
	if err != nil {
		return err
	}
	return await(ctx, startTimeout, func() error {
		d, err := client.AppsV1().Deployments("kube-system").Get(ctx, "coredns", metav1.GetOptions{})
		if err == nil && (d.Status.ReadyReplicas < 1 || d.Status.ObservedGeneration < d.Generation) {
			err = errors.New("CoreDNS is not ready")
		}
		return err
	})
}

func (b *bed) apply(ctx context.Context, manifests []byte) error {
	cmd, err := binaries.Folder{Dir: b.Binaries}.Command("kubectl", "--kubeconfig", b.kubeconfig(), "apply",
		"--server-side", "-f", "-")
	if err != nil {
		return err
	}
	cmd.Stdin = bytes.NewReader(manifests)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl apply: %w\n%s", err, output)
	}
	return nil
}

// down stops all machines and removes the cluster.
func down(ctx context.Context, dir string) error {
	if w, err := openWAN(dir); err == nil {
		return w.down(ctx)
	}
	b, err := openBed(dir)
	if err != nil {
		if _, gone := os.Stat(dir); os.IsNotExist(gone) {
			return nil
		}
		return err
	}
	machines := []string{controlPlane}
	for _, n := range b.Nodes {
		machines = append(machines, n.Name)
	}
	results := make(chan error)
	for _, m := range machines {
		go func() { results <- b.stopMachine(ctx, m) }()
	}
	var errs []error
	for range machines {
		errs = append(errs, <-results)
	}
	errs = append(errs, removeCgroups(ctx, b.cgroup()))
	if only, err := isOnlyCluster(); only && b.Inotify != "" {
		errs = append(errs, os.WriteFile(inotifyLimitFile, []byte(b.Inotify), 0o644))
	} else {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err // keep the directory for another attempt
	}
	b.removeKernelModules()
	return os.RemoveAll(b.dir)
}
