package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestATraceShowsTheMessagesAndStatesOfItsKeyAndLeavesTheRunAsItIs(t *testing.T) {
	p, err := ProfileNamed("caches")
	if err != nil {
		t.Fatal(err)
	}
	const seed = 4711
	k, err := TraceKey(p, seed, causal.Mutations{}, "k1")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(k.Lines, "\n")
	for _, want := range []string{" put ", " put-reply ", " put-after ", " put-ack ", " complete ", " get ",
		" get-reply ", " fill-reply ", " invalidate ",
		": stored k1=", ": incomplete k1=", ": copies k1=", ": own write of s1 k1=", ".cache: nothing"} {
		if !strings.Contains(text, want) {
			t.Errorf("no line has %q", want)
		}
	}
	for _, line := range k.Lines {
		kind := strings.Fields(line)[2]
		if named, ofOne := strings.Contains(line, "k1"),
			slices.Contains([]string{"get", "put", "fill", "invalidate", "put-after"}, kind); ofOne && !named ||
			kind == "vectors" {
			t.Errorf("the message does not concern the key: %s", line)
		}
	}
	var checker history.Checker
	if o := Run(p, seed, causal.Mutations{}, &checker); o.Steps != k.Outcome.Steps || o.Messages != k.Outcome.Messages {
		t.Errorf("%d steps and %d messages, without the trace %d and %d", k.Outcome.Steps, k.Outcome.Messages, o.Steps,
			o.Messages)
	}
}

func TestATraceOfAKeyThatDoesNotOccurNamesThoseThatDo(t *testing.T) {
	p, err := ProfileNamed("caches")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TraceKey(p, 4711, causal.Mutations{}, "nosuch"); err == nil ||
		!strings.Contains(err.Error(), "its keys are: k0 k1") {
		t.Errorf("got %v", err)
	}
}

func TestALongTraceKeepsItsBeginningAndItsEnd(t *testing.T) {
	k := &keyTracer{trace: newTrace(nil), result: &KeyTrace{}}
	k.trace.world = &World{}
	lines := []string{"first"}
	for range maxKeyTraceLines {
		lines = append(lines, "middle")
	}
	for _, line := range append(lines, "last") {
		k.add(line)
	}
	r := k.result
	if len(r.Lines) != maxKeyTraceLines || r.LeftOut != 2 || !strings.HasSuffix(r.Lines[0], "first") ||
		!strings.HasSuffix(r.Lines[len(r.Lines)-1], "last") ||
		slices.ContainsFunc(r.Lines[1:len(r.Lines)-1], func(line string) bool {
			return !strings.HasSuffix(line, "middle")
		}) {
		t.Errorf("%d lines, %d left out", len(r.Lines), r.LeftOut)
	}
}
