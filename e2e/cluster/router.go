//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/causalstore/causalstore/e2e/cluster/wan"
)

// defaultLink is that of a new router: regions on one continent.
var defaultLink = wan.Link{Delay: 40 * time.Millisecond}

// path is a direction of a link between two clusters, as "cluster-1>cluster-2".
func path(from, to network) string { return clusterName(from) + ">" + clusterName(to) }

// paths returns all directions between clusters, in order.
func (w *joined) paths() []string {
	var paths []string
	for from := range network(w.Clusters) {
		for to := range network(w.Clusters) {
			if from != to {
				paths = append(paths, path(from, to))
			}
		}
	}
	return paths
}

// linkState is a direction of a link, and what it did.
type linkState struct {
	wan.Link
	Stats wan.Stats
}

// routing is the router's state.
type routing struct {
	w  *joined
	mu sync.Mutex

	links  map[string]wan.Link
	queues map[string]*wan.Queue
}

// runRouter routes between the clusters, delays what it forwards, and serves changes of the links on a socket.
func (w *joined) runRouter(ctx context.Context) error {
	m := &mounts{}
	m.private()
	if err := m.err(); err != nil {
		return err
	}
	for n := range network(w.Clusters) {
		if err := awaitInterface(ctx, clusterName(n)); err != nil {
			return err
		}
		if err := runIP(ctx, [][]string{{"addr", "add", n.router() + "/24", "dev", clusterName(n)},
			{"link", "set", clusterName(n), "up"}}); err != nil {
			return err
		}
	}
	r := &routing{w: w, links: map[string]wan.Link{}, queues: map[string]*wan.Queue{}}
	if err := r.readStored(); err != nil {
		return err
	}
	for i, p := range w.paths() {
		q, err := wan.Open(ctx, uint16(i), r.links[p])
		if err != nil {
			return err
		}
		r.queues[p] = q
	}
	for _, args := range w.routerRules() {
		if err := run(ctx, "iptables", args...); err != nil {
			return err
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	return r.serve()
}

// routerRules returns the arguments of iptables that hand packets between clusters to their queue. Many kernels lack
// nftables' own queues. Only addresses of machines are forwarded.
func (w *joined) routerRules() [][]string {
	rules := [][]string{{"--policy", "FORWARD", "DROP"}}
	number := 0
	for from := range network(w.Clusters) {
		for to := range network(w.Clusters) {
			if from != to {
				rules = append(rules, []string{"--append", "FORWARD", "--in-interface", clusterName(from),
					"--out-interface", clusterName(to),
					"--source", from.machines(), "--destination", to.machines(), "--jump", "NFQUEUE", "--queue-num",
					fmt.Sprint(number)})
				number++
			}
		}
	}
	return rules
}

// readStored reads the links of the router's previous life.
func (r *routing) readStored() error {
	stored := map[string]wan.Link{}
	text, err := os.ReadFile(r.w.file("links.json"))
	if err == nil {
		err = json.Unmarshal(text, &stored)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the links: %w", err)
	}
	for _, p := range r.w.paths() {
		l, ok := stored[p]
		if !ok {
			l = defaultLink
		}
		r.links[p] = l
	}
	return nil
}

func (w *joined) socket() string { return w.file("wan.sock") }

// serve answers requests until the machine is killed: GET for the links, PUT to set some.
func (r *routing) serve() error {
	if err := os.RemoveAll(r.w.socket()); err != nil {
		return err
	}
	l, err := net.Listen("unix", r.w.socket())
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(r.handle), ReadTimeout: 10 * time.Second}
	return server.Serve(l)
}

func (r *routing) handle(rw http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if req.Method == http.MethodPut {
		if err := r.change(req); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
	}
	states := map[string]linkState{}
	for p, l := range r.links {
		states[p] = linkState{l, r.queues[p].Stats()}
	}
	_ = json.NewEncoder(rw).Encode(states) // the client may have gone
}

// change sets the links of a request and stores all.
func (r *routing) change(req *http.Request) error {
	changes := map[string]wan.Link{}
	if err := json.NewDecoder(req.Body).Decode(&changes); err != nil {
		return err
	}
	for p, l := range changes {
		if r.queues[p] == nil {
			return fmt.Errorf("no link %s", p)
		}
		if err := l.Validate(); err != nil {
			return err
		}
	}
	for p, l := range changes {
		r.links[p] = l
		r.queues[p].Set(l)
	}
	text, err := json.MarshalIndent(r.links, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(r.w.file("links.json"), text, 0o644)
}

// readLinks asks the router for its links.
func (w *joined) readLinks(ctx context.Context) (map[string]linkState, error) {
	return w.ask(ctx, http.MethodGet, nil)
}

// ask sends the router a request; the answer is the state after it.
func (w *joined) ask(ctx context.Context, method string, changes map[string]wan.Link) (map[string]linkState, error) {
	body, err := json.Marshal(changes)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://router/", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", w.socket())
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the router: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var text bytes.Buffer
		_, _ = text.ReadFrom(resp.Body) // the status alone suffices
		return nil, errors.New(strings.TrimSpace(text.String()))
	}
	states := map[string]linkState{}
	return states, json.NewDecoder(resp.Body).Decode(&states)
}

// awaitInterface waits until somebody has connected this machine.
func awaitInterface(ctx context.Context, name string) error {
	return await(ctx, 30*time.Second, func() error { _, err := net.InterfaceByName(name); return err })
}
