//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/causalstore/causalstore/e2e/cluster/wan"
)

// wanCommand returns the commands that change the links between joined clusters.
func wanCommand(dir *string) *cobra.Command {
	root := &cobra.Command{Use: "wan", Short: "Change the links between the clusters of `cluster up --clusters`"}
	var oneWay bool
	// add adds a command with an optional pair of clusters after its own arguments. prepare returns what it does to a
	// link.
	add := func(use, short string, own int, prepare func(args []string) (func(*wan.Link), error)) *cobra.Command {
		c := &cobra.Command{Use: use + " [A B]", Short: short, RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != own && len(args) != own+2 {
				return fmt.Errorf("give %s, and two clusters or nothing for all links", use)
			}
			change, err := prepare(args[:own])
			if err != nil {
				return err
			}
			w, err := openWAN(*dir)
			if err != nil {
				return err
			}
			return w.changeLinks(cmd.Context(), args[own:], oneWay, change)
		}}
		c.Flags().BoolVar(&oneWay, "one-way", false, "change only what A sends to B")
		root.AddCommand(c)
		return c
	}
	add("delay DURATION", "Delay packets, such as 40ms (default), in each direction", 1,
		func(args []string) (func(*wan.Link), error) {
			d, err := time.ParseDuration(args[0])
			return func(l *wan.Link) { l.Delay = d }, err
		})
	add("cut", "Drop all packets", 0, func([]string) (func(*wan.Link), error) {
		return func(l *wan.Link) {
			l.Cut = true
		}, nil
	})
	add("heal", "End cuts and congestion; the delay stays", 0, func([]string) (func(*wan.Link), error) {
		return func(l *wan.Link) { l.Cut, l.Rate, l.Queue = false, 0, 0 }, nil
	})
	var queue string
	congest := add("congest RATE", "Let through RATE bytes per second, such as 500k or 2M, in each direction", 1,
		func(args []string) (func(*wan.Link), error) {
			rate, err := parseBytes(args[0])
			size, other := parseBytes(queue)
			return func(l *wan.Link) { l.Rate, l.Queue = rate, size }, errors.Join(err, other)
		})
	congest.Flags().StringVar(&queue, "queue", "256k", "bytes that wait for the link; what comes on top is dropped")
	root.AddCommand(&cobra.Command{Use: "status", Short: "Print the links and what they did", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := openWAN(*dir)
			if err != nil {
				return err
			}
			states, err := w.readLinks(cmd.Context())
			if err == nil {
				fmt.Print(w.describeLinks(states))
			}
			return err
		}})
	return root
}

// parseBytes reads a number of bytes with an optional unit.
func parseBytes(text string) (int64, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no number of bytes; give one such as 500k or 2M", text)
	}
	return q.Value(), nil
}

// changeLinks changes the links between two clusters, or all links.
func (w *joined) changeLinks(ctx context.Context, clusters []string, oneWay bool, change func(*wan.Link)) error {
	paths, err := w.choosePaths(clusters, oneWay)
	if err != nil {
		return err
	}
	states, err := w.readLinks(ctx)
	if err != nil {
		return err
	}
	changes := map[string]wan.Link{}
	for _, p := range paths {
		l := states[p].Link
		change(&l)
		changes[p] = l
	}
	_, err = w.ask(ctx, http.MethodPut, changes)
	return err
}

func (w *joined) choosePaths(clusters []string, oneWay bool) ([]string, error) {
	if len(clusters) == 0 {
		if oneWay {
			return nil, errors.New("one way from where? give two clusters")
		}
		return w.paths(), nil
	}
	var pair [2]network
	for i, name := range clusters {
		pair[i] = -1
		for n := range network(w.Clusters) {
			if clusterName(n) == name {
				pair[i] = n
			}
		}
		if pair[i] < 0 {
			return nil, fmt.Errorf("no cluster %q; clusters are %s to %s", name, clusterName(0),
				clusterName(network(w.Clusters-1)))
		}
	}
	if pair[0] == pair[1] {
		return nil, errors.New("give two different clusters")
	}
	if oneWay {
		return []string{path(pair[0], pair[1])}, nil
	}
	return []string{path(pair[0], pair[1]), path(pair[1], pair[0])}, nil
}

// describeLinks returns a line for each direction between clusters.
func (w *joined) describeLinks(states map[string]linkState) string {
	var s strings.Builder
	for _, p := range w.paths() {
		l := states[p]
		fmt.Fprintf(&s, "%s delay %s", strings.Replace(p, ">", " -> ", 1), l.Delay)
		if l.Cut {
			fmt.Fprint(&s, ", cut")
		}
		if l.Rate > 0 {
			fmt.Fprintf(&s, ", %d B/s with a queue of %d B", l.Rate, l.Queue)
		}
		fmt.Fprintf(&s, "; %d packets (%d B) forwarded, %d dropped, %d in flight\n", l.Stats.Packets, l.Stats.Bytes,
			l.Stats.Dropped, l.Stats.Held)
	}
	return s.String()
}
