//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// maxClusters is how many clusters a router joins.
const maxClusters = 3

// router is the machine that joins the networks of several clusters.
const router = "router"

// joined is several clusters in folders of one directory, and the router between them. Machines of one cluster reach
// the nodes of another, and so its Services of type NodePort, at the nodes' own addresses. Pods reach them as their
// node, and cannot be reached.
type joined struct {
	*bed     // the router's files; it has no nodes
	Clusters int
}

func clusterName(n network) string { return fmt.Sprintf("cluster-%d", n+1) }

// openWAN opens the clusters in a directory.
func openWAN(dir string) (*joined, error) {
	w := &joined{bed: &bed{dir: dir}}
	text, err := os.ReadFile(w.file("wan.json"))
	if err != nil {
		return nil, fmt.Errorf("no joined clusters in %s; create them with `cluster up --clusters 2`: %w", dir, err)
	}
	return w, json.Unmarshal(text, &w.Clusters)
}

// upJoined starts several clusters and the router, or what of them is not running.
func upJoined(ctx context.Context, dir string, clusters int, zones []string, perZone int, chosen bool) error {
	if clusters > maxClusters {
		return fmt.Errorf("%d clusters; give 1 to %d", clusters, maxClusters)
	}
	if _, err := openBed(dir); err == nil {
		return fmt.Errorf("%s holds a single cluster; remove it with `cluster down`, or give another --dir", dir)
	}
	if w, err := openWAN(dir); err == nil && w.Clusters != clusters {
		return fmt.Errorf("%s holds %d clusters, not %d; remove them with `cluster down`", dir, w.Clusters, clusters)
	}
	w := &joined{bed: &bed{dir: dir}, Clusters: clusters}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(w.file("wan.json"), []byte(strconv.Itoa(clusters)), 0o644); err != nil {
		return err
	}
	for n := range network(clusters) {
		b, err := newBed(w.file(clusterName(n)), zones, perZone)
		if err != nil {
			return err
		}
		b.join(n, clusters)
		if err := up(ctx, b, chosen); err != nil {
			return fmt.Errorf("start %s: %w", clusterName(n), err)
		}
	}
	if err := w.startRouter(ctx); err != nil {
		return fmt.Errorf("start the router: %w", err)
	}
	fmt.Printf("%d clusters are joined; `cluster wan` changes the links between them\n", clusters)
	return nil
}

// startRouter restarts the router and connects it to all clusters. Its links keep their settings.
func (w *joined) startRouter(ctx context.Context) error {
	if err := errors.Join(w.stopMachine(ctx, router), w.copyProgram()); err != nil {
		return err
	}
	if err := w.startMachine(router, nil); err != nil {
		return err
	}
	pid := strconv.Itoa(w.runningPID(router))
	for n := range network(w.Clusters) {
		b, err := openBed(w.file(clusterName(n)))
		if err != nil {
			return err
		}
		target := strconv.Itoa(b.runningPID(controlPlane))
		// The kernel may not yet have removed the port to a router that was stopped.
		if err := run(ctx, "nsenter", "--target", target, "--net", "sh", "-c",
			"ip link del wan 2>/dev/null; ip link add wan type veth peer name "+clusterName(n)+
				" netns "+pid+" && ip link set wan master switch up"); err != nil {
			return fmt.Errorf("connect %s: %w", clusterName(n), err)
		}
	}
	return await(ctx, startTimeout, func() error {
		_, err := w.readLinks(ctx)
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, logTail(w.file("log", router, "machine.log")))
		}
		return err
	})
}

// down removes the router and all clusters.
func (w *joined) down(ctx context.Context) error {
	errs := []error{w.stopMachine(ctx, router)}
	for n := range network(w.Clusters) {
		errs = append(errs, down(ctx, w.file(clusterName(n))))
	}
	errs = append(errs, removeCgroups(ctx, w.cgroup()))
	if err := errors.Join(errs...); err != nil {
		return err // keep the directory for another attempt
	}
	return os.RemoveAll(w.dir)
}

// hidePods makes the pods of a node appear to other clusters as the node.
func (b *bed) hidePods(ctx context.Context) error {
	if b.Joined == 0 {
		return nil
	}
	return loadRules(ctx, b.renderMasquerade())
}

// loadRules runs an nft script in this machine's network.
func loadRules(ctx context.Context, script string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, bytes.TrimSpace(output))
	}
	return nil
}

func (b *bed) renderMasquerade() string {
	rules := ""
	for _, other := range b.others() {
		rules += fmt.Sprintf("\t\tip saddr %s ip daddr %s masquerade\n", b.Network.pods(), other.machines())
	}
	return "table ip wan\ndelete table ip wan\ntable ip wan {\n\tchain postrouting {\n\t\ttype nat hook postrouting " +
		"priority srcnat; policy accept;\n" + rules + "\t}\n}\n"
}
