//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Names that cut and heal accept besides those of nodes and zones.
const (
	allNodes    = "nodes" // every node that the other operand does not name
	allMachines = "all"   // these, and the control plane
)

// link is the path from one machine to another. The way back is a link of its own.
type link struct{ From, To string }

// cuts holds how each cut link treats its packets.
type cuts map[link]treatment

// treatment is what happens to the packets of a cut link.
type treatment string

const (
	drop   treatment = "drop"   // they vanish, as with a broken cable
	reject treatment = "reject" // the sender learns it at once, as from a firewall
)

// machines returns the machines that an operand names.
func (b *bed) machines(operand string) ([]string, error) {
	if operand == controlPlane {
		return []string{controlPlane}, nil
	}
	var found []string
	for _, n := range b.Nodes {
		if operand == n.Name || operand == n.Zone || operand == allNodes || operand == allMachines {
			found = append(found, n.Name)
		}
	}
	if operand == allMachines {
		found = append(found, controlPlane)
	}
	if len(found) == 0 {
		return nil,
			fmt.Errorf(
				"no node or zone %q; give node-1 to node-%d, a zone (%s), %s, %s (all other nodes) or %s (these "+
					"and %[4]s)", operand,
				len(b.Nodes), strings.Join(b.zones(), ", "), controlPlane, allNodes, allMachines)
	}
	return found, nil
}

// zones returns the zones that have nodes.
func (b *bed) zones() []string {
	var zones []string
	for _, n := range b.Nodes {
		if !slices.Contains(zones, n.Zone) {
			zones = append(zones, n.Zone)
		}
	}
	return zones
}

// links returns the links from the machines of one operand to those of another. Machines in both belong to the narrower
// one: `zone-a all` is about zone-a and the machines outside, `all zone-a` too.
func (b *bed) links(from, to string) ([]link, error) {
	sources, err := b.machines(from)
	if err != nil {
		return nil, err
	}
	targets, err := b.machines(to)
	if err != nil {
		return nil, err
	}
	if len(sources) <= len(targets) {
		targets = without(targets, sources)
	} else {
		sources = without(sources, targets)
	}
	if len(sources) == 0 || len(targets) == 0 {
		return nil, fmt.Errorf("%s and %s are the same machines; give two different ones", from, to)
	}
	var links []link
	for _, s := range sources {
		for _, t := range targets {
			links = append(links, link{s, t})
		}
	}
	return links, nil
}

func without(all, excluded []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(m string) bool { return slices.Contains(excluded, m) })
}

// prefixes returns the addresses of a machine and its pods.
func (b *bed) prefixes(machine string) []string {
	for _, n := range b.Nodes {
		if n.Name == machine {
			return []string{n.ip(), n.podCIDR()}
		}
	}
	return []string{b.Network.controlPlane()}
}

// sorted returns the cut links in the order of machines, the control plane last.
func (b *bed) sorted(c cuts) []link {
	order := func(machine string) int {
		i := slices.IndexFunc(b.Nodes, func(n node) bool { return n.Name == machine })
		return (i + len(b.Nodes) + 1) % (len(b.Nodes) + 1)
	}
	links := make([]link, 0, len(c))
	for l := range c {
		links = append(links, l)
	}
	slices.SortFunc(links, func(x, y link) int {
		if d := order(x.From) - order(y.From); d != 0 {
			return d
		}
		return order(x.To) - order(y.To)
	})
	return links
}

// renderCuts returns the nft script that makes the switch treat links as given, and no others. The switch passes what
// it bridges between nodes to the hook forward; what the control plane receives and sends, to input and output.
func (b *bed) renderCuts(c cuts) string {
	var s strings.Builder
	fmt.Fprint(&s, "table ip cuts\ndelete table ip cuts\ntable ip cuts {\n")
	for _, hook := range []string{"forward", "input", "output"} {
		fmt.Fprintf(&s, "\tchain %s {\n\t\ttype filter hook %[1]s priority filter; policy accept;\n", hook)
		if hook == "input" { // a refusal of the hook output comes back here, from the address of the node
			fmt.Fprint(&s, "\t\tiifname \"lo\" accept\n")
		}
		for _, l := range b.sorted(c) {
			if hookOf(l) != hook {
				continue
			}
			match := fmt.Sprintf("ip saddr { %s } ip daddr { %s }", strings.Join(b.prefixes(l.From), ", "),
				strings.Join(b.prefixes(l.To), ", "))
			if c[l] == reject {
				fmt.Fprintf(&s, "\t\t%s meta l4proto tcp reject with tcp reset\n", match)
			}
			fmt.Fprintf(&s, "\t\t%s %s\n", match, c[l])
		}
		fmt.Fprint(&s, "\t}\n")
	}
	fmt.Fprint(&s, "}\n")
	return s.String()
}

// hookOf returns the hook of the switch that sees the packets of a link.
func hookOf(l link) string {
	switch controlPlane {
	case l.From:
		return "output"
	case l.To:
		return "input"
	}
	return "forward"
}

// readCuts returns the current cuts.
func (b *bed) readCuts() (cuts, error) {
	text, err := os.ReadFile(b.file("cuts.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return cuts{}, nil
	}
	if err != nil {
		return nil, err
	}
	var stored []storedCut
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("read cuts: %w", err)
	}
	c := cuts{}
	for _, s := range stored {
		c[s.link] = s.Treatment
	}
	return c, nil
}

type storedCut struct {
	link
	Treatment treatment
}

// changeCuts applies a change to the cuts of a running cluster. Concurrent changes wait for each other.
func (b *bed) changeCuts(ctx context.Context, change func(cuts)) error {
	pid := b.runningPID(controlPlane)
	if pid == 0 {
		return errors.New("the switch is not running; start the cluster with `cluster up`")
	}
	lock, err := os.Create(b.file("cuts.lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock the cuts: %w", err)
	}
	c, err := b.readCuts()
	if err != nil {
		return err
	}
	change(c)
	cmd := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(pid), "--net", "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(b.renderCuts(c))
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("program the switch: %w: %s", err, bytes.TrimSpace(output))
	}
	stored := []storedCut{}
	for _, l := range b.sorted(c) {
		stored = append(stored, storedCut{l, c[l]})
	}
	text, err := json.MarshalIndent(stored, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(b.file("cuts.json"), text, 0o644)
}

// cut cuts the links between two operands, those back too unless it is only one way.
func (b *bed) cut(ctx context.Context, from, to string, how treatment, oneWay bool) error {
	links, err := b.links(from, to)
	if err != nil {
		return err
	}
	return b.changeCuts(ctx, func(c cuts) {
		for _, l := range links {
			c[l] = how
			if !oneWay {
				c[link{l.To, l.From}] = how
			}
		}
	})
}

// heal ends the cuts between two operands, in both directions, or all cuts without operands.
func (b *bed) heal(ctx context.Context, operands []string) error {
	if len(operands) == 0 {
		return b.changeCuts(ctx, func(c cuts) { clear(c) })
	}
	links, err := b.links(operands[0], operands[1])
	if err != nil {
		return err
	}
	return b.changeCuts(ctx, func(c cuts) {
		for _, l := range links {
			delete(c, l)
			delete(c, link{l.To, l.From})
		}
	})
}

// describeCuts returns a line for each pair of machines that is cut.
func (b *bed) describeCuts(c cuts) string {
	var s strings.Builder
	described := map[link]bool{}
	for _, l := range b.sorted(c) {
		back := link{l.To, l.From}
		switch {
		case c[back] != c[l]:
			fmt.Fprintf(&s, "%s -> %s %s\n", l.From, l.To, c[l])
		case !described[back]:
			fmt.Fprintf(&s, "%s <-> %s %s\n", l.From, l.To, c[l])
		}
		described[l] = true
	}
	if s.Len() == 0 {
		return "nothing is cut\n"
	}
	return s.String()
}

// addCutCommands adds the commands that cut the network between machines.
func addCutCommands(dir *string, add func(string, string, cobra.PositionalArgs,
	func(context.Context, []string) error) *cobra.Command) {
	var oneWay, rejecting bool
	cut := add("cut A B", "Cut the network between A and B: nodes, zones, "+controlPlane+", "+allNodes+
		" (all other nodes) or "+allMachines+" (these and "+
		controlPlane+")", cobra.ExactArgs(2), func(ctx context.Context, args []string) error {
		b, err := openBed(*dir)
		if err != nil {
			return err
		}
		how := drop
		if rejecting {
			how = reject
		}
		return b.cut(ctx, args[0], args[1], how, oneWay)
	})
	cut.Flags().BoolVar(&oneWay, "one-way", false, "cut only what A sends to B")
	cut.Flags().BoolVar(&rejecting, "reject", false, "refuse packets visibly; default: drop them")
	add("heal [A B]", "End the cuts between A and B, or all", noneOrTwo,
		func(ctx context.Context, args []string) error {
			b, err := openBed(*dir)
			if err != nil {
				return err
			}
			return b.heal(ctx, args)
		})
	add("cuts", "Print what is cut", cobra.NoArgs, func(context.Context, []string) error {
		b, err := openBed(*dir)
		if err != nil {
			return err
		}
		c, err := b.readCuts()
		if err == nil {
			fmt.Print(b.describeCuts(c))
		}
		return err
	})
}

func noneOrTwo(_ *cobra.Command, args []string) error {
	if len(args) != 0 && len(args) != 2 {
		return errors.New("give two of nodes, zones and " + controlPlane + ", or nothing to heal everything")
	}
	return nil
}
