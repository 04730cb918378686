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
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/causalstore/causalstore/e2e/binaries"
)

//go:embed addons.yaml
var addons []byte

// portAPI is where the API server is reached on this machine, if nobody else is there.
const portAPI = 16443

// up makes what does not run.
func up(ctx context.Context, b *bed) error {
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Printf("%5.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	if err := preflight(ctx); err != nil {
		return err
	}
	if there, err := openBed(b.dir); err == nil {
		b = there // with its nodes
	}
	folder, err := binaries.FindOrBuild(ctx, os.Stdout, binaries.All()...)
	if err != nil {
		return err
	}
	b.Binaries = folder.Dir
	if err := b.prepare(); err != nil {
		return err
	}
	say("binaries are those in %s", folder.Dir)
	if err := b.startAll(ctx); err != nil {
		return err
	}
	say("%d nodes and the control plane are started", len(b.Nodes))
	images, err := b.baseImages(ctx)
	if err != nil {
		return err
	}
	if err := b.loadImages(ctx, images); err != nil {
		return err
	}
	say("the nodes have their images")
	if err := b.apply(ctx, addons); err != nil {
		return err
	}
	if err := b.awaitNodes(ctx); err != nil {
		return err
	}
	say("all nodes are ready")
	if err := b.awaitNames(ctx); err != nil {
		return err
	}
	say("the cluster is up; export KUBECONFIG=%s", b.kubeconfig())
	return nil
}

// prepare makes the folder of the cluster.
func (b *bed) prepare() error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	if err := b.save(); err != nil {
		return err
	}
	if err := b.raiseInotify(); err != nil {
		return fmt.Errorf("raise fs.inotify.max_user_instances: %w", err)
	}
	if b.pid(controlPlane) != 0 {
		return nil
	}
	// The first processes of machines run this program, which `go run` removes.
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

// startAll starts the machines that do not run. Without the control plane, no node has a network.
func (b *bed) startAll(ctx context.Context) error {
	if b.pid(controlPlane) == 0 {
		for _, n := range b.Nodes {
			if err := b.stopMachine(ctx, n.Name); err != nil {
				return err
			}
		}
		l, err := b.listen()
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

// listen for clients of the API server on this machine: where it was before, or else where nobody is.
func (b *bed) listen() (net.Listener, error) {
	if b.Port != 0 {
		return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", b.Port))
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", portAPI))
	if err != nil { // most likely another cluster
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
		if b.pid(controlPlane) == 0 {
			return errors.New("its machine has ended")
		}
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("the API server is not ready: %w\n%s\n%s", err, tail(b.file("log", controlPlane, "machine.log")),
			tail(b.file("log", controlPlane, "kube-apiserver.log")))
	}
	return nil
}

// awaitNodes: ready counts only for this start of a node; the API server also keeps what it knew of the one before.
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
	is, err := client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if is.Status.NodeInfo.BootID != strings.TrimSpace(string(boot)) {
		return errors.New("it has not reported since it was started")
	}
	for _, c := range is.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return errors.New("its kubelet says so")
}

func (b *bed) awaitNames(ctx context.Context) error {
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
	cmd, err := binaries.Folder{Dir: b.Binaries}.Command("kubectl", "--kubeconfig", b.kubeconfig(), "apply", "--server-side", "-f", "-")
	if err != nil {
		return err
	}
	cmd.Stdin = bytes.NewReader(manifests)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl apply: %w\n%s", err, said)
	}
	return nil
}

// down ends all machines and removes all that there was.
func down(ctx context.Context, dir string) error {
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
	errs = append(errs, removeGroups(ctx, b.group()))
	if only, err := onlyCluster(); only && b.Inotify != "" {
		errs = append(errs, os.WriteFile(inotify, []byte(b.Inotify), 0o644))
	} else {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err // what is known of the rest is needed to try again
	}
	return os.RemoveAll(b.dir)
}
