// Package chaosprobe finds out what Chaos Mesh can do on the nodes of a cluster. An experiment that a kernel cannot
// carry out fails, and may leave rules behind that stop later ones.
package chaosprobe

import (
	_ "embed"
	"fmt"
	"strings"
)

// Script prints the features of a node, in a shell in a pod of chaos-daemon. Anybody with kubectl can run it.
//
//go:embed probe.sh
var Script string

// Feature is something that experiments need.
type Feature struct {
	Name string
	// Available is set if it was tried successfully; otherwise Why says what happened.
	Available bool
	Why       string
}

// purposes are the features in the order in which they are shown, with the experiments that need them.
var purposes = []struct{ name, what string }{
	{"partition", "NetworkChaos partition"},
	{"ports", "NetworkChaos partition of ports"},
	{"netem", "NetworkChaos delay, loss, duplicate, corrupt"},
	{"bandwidth", "NetworkChaos bandwidth"},
	{"targets", "NetworkChaos delay, loss, bandwidth with a target"},
	{"clock", "TimeChaos"},
	{"files", "IOChaos"},
	{"cpu", "StressChaos cpu"},
	{"memory", "StressChaos memory"},
}

// Parse reads what Script has printed.
func Parse(out string) ([]Feature, error) {
	found := map[string]Feature{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[1] != "yes" && fields[1] != "no" {
			return nil, fmt.Errorf("the probe printed %q, want the name of a feature, and yes or no",
				strings.TrimSpace(line))
		}
		found[fields[0]] = Feature{Name: fields[0], Available: fields[1] == "yes", Why: strings.Join(fields[2:], " ")}
	}
	var features []Feature
	for _, p := range purposes {
		f, ok := found[p.name]
		if !ok {
			return nil, fmt.Errorf("the probe printed nothing about %s: %q", p.name, out)
		}
		features = append(features, f)
	}
	return features, nil
}

// Format returns a table of features. All nodes of a cluster usually have the same; a difference names the nodes
// without one.
func Format(byNode map[string][]Feature, nodes []string) string {
	var out strings.Builder
	for i, p := range purposes {
		var without []string
		why := ""
		for _, n := range nodes {
			if f := byNode[n][i]; !f.Available {
				without, why = append(without, n), f.Why
			}
		}
		switch {
		case len(without) == 0:
			fmt.Fprintf(&out, "  %-52s yes\n", p.what)
		case len(without) == len(nodes):
			fmt.Fprintf(&out, "  %-52s no: %s\n", p.what, why)
		default:
			fmt.Fprintf(&out, "  %-52s not on %s: %s\n", p.what, strings.Join(without, ", "), why)
		}
	}
	return out.String()
}
