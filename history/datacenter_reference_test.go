package history

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// isOneRedis is the definition that the search is compared with: it tries all orders of the operations of data center
// a, with the writes of others and those of unknown outcome each at any place after its start, or at none.
func isOneRedis(all []access, dc string) bool {
	var ops []access
	for _, a := range all {
		if wrote, writes := a.wrote(); a.dc != dc {
			if !writes {
				continue
			}
			a.command = command{does: set, text: wrote.text}
			if !wrote.present {
				a.command = command{does: remove}
			}
			a.end = math.MaxInt64
		}
		ops = append(ops, a)
	}
	var place func(at content, left []access) bool
	place = func(at content, left []access) bool {
		soonest, needed := int64(math.MaxInt64), false
		for _, a := range left {
			soonest, needed = min(soonest, a.end), needed || a.end != math.MaxInt64
		}
		if !needed {
			return true
		}
		for i, a := range left {
			if a.start > soonest {
				continue
			}
			if after, ok := a.execute(at); ok && place(after, slices.Delete(slices.Clone(left), i, i+1)) {
				return true
			}
		}
		return false
	}
	return place(content{}, ops)
}

// randomCommands are those of one key, with the replies that they may have where values are few.
var randomCommands = []struct {
	command []string
	replies []string // "-" is nil
}{
	{nil, []string{"-", "1", "2", "3"}}, // GET
	{nil, []string{"-", "1", "2", "3"}},
	{[]string{"INCR"}, []string{"1", "2", "3"}},
	{[]string{"DECRBY", "2"}, []string{"-2", "-1", "0", "1"}},
	{[]string{"SET", "1"}, []string{"OK"}},
	{[]string{"SET", "2", "NX"}, []string{"OK", "-"}},
	{[]string{"SET", "3", "XX"}, []string{"OK", "-"}},
	{[]string{"SET", "3", "NX", "GET"}, []string{"-", "1", "2"}},
	{[]string{"SETNX", "2"}, []string{"0", "1"}},
	{[]string{"GETSET", "3"}, []string{"-", "1", "2"}},
	{[]string{"GETDEL"}, []string{"-", "1", "2"}},
	{[]string{"DEL"}, []string{"0", "1"}},
	{[]string{"APPEND", "1"}, []string{"1", "2"}},
	{[]string{"STRLEN"}, []string{"0", "1"}},
	{[]string{"EXISTS"}, []string{"0", "1"}},
	{[]string{"EXPIRE", "1000"}, []string{"0", "1"}},
	{[]string{"PERSIST"}, []string{"0", "1"}},
}

func randomOp(r *rand.Rand, session int) Op {
	c := randomCommands[r.IntN(len(randomCommands))]
	start := int64(r.IntN(12))
	op := Op{Session: fmt.Sprint("s", session), DC: "a", Kind: Update, Key: "x", Command: c.command, OK: true,
		Start: start, End: start + int64(r.IntN(8))}
	if c.command == nil {
		op.Kind = Get
	}
	if op.Value = c.replies[r.IntN(len(c.replies))]; op.Value == "-" {
		op.Value, op.Missing = "", true
	}
	switch r.IntN(8) {
	case 0, 1: // without APPEND: what another data center has appended to is not known
		if op.DC = "b"; op.Kind == Update && op.Command[0] == "APPEND" {
			op.Command, op.Value = []string{"INCR"}, strconv.Itoa(1+r.IntN(3))
		}
	case 2:
		if op.Kind == Update {
			op.OK, op.Unknown, op.Value, op.Missing = false, true, "", false
		}
	}
	return op
}

func TestTheSearchAgreesWithTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	verdicts := map[bool]int{}
	for range 60_000 {
		var h History
		for range 2 + r.IntN(4) {
			h = append(h, randomOp(r, len(h)))
		}
		keys, err := accessesOf(h)
		if err != nil {
			t.Fatal(err)
		}
		k := keys["x"]
		if slices.ContainsFunc(k.accesses, func(a access) bool { return a.dc == "b" && !a.answered && a.does == add }) ||
			slices.ContainsFunc(k.accesses, func(a access) bool { return a.dc == "b" && a.does == appendTo }) {
			continue // what it has written is not known
		}
		report, err := CheckDataCenters(h, DataCenterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := isOneRedis(k.accesses, "a")
		wrong := slices.ContainsFunc(report.Exact.Violations, func(v Violation) bool { return inDataCenter(h, v, "a") })
		if wrong == want {
			t.Fatalf("the search says %t, and the definition %t:\n%s\n%v", !wrong, want, report.String(), listed(h))
		}
		verdicts[want]++
	}
	if verdicts[true] < 1000 || verdicts[false] < 1000 {
		t.Errorf("of the histories, %d are those of one Redis and %d are not: they show little", verdicts[true],
			verdicts[false])
	}
}

func inDataCenter(h History, v Violation, dc string) bool {
	return slices.ContainsFunc(v.Ops, func(op int) bool { return h[op].DC == dc })
}

func listed(h History) (lines string) {
	for i := range h {
		lines += fmt.Sprintf("%s %s [%d,%d]\n", h[i].DC, h[i].String(), h[i].Start, h[i].End)
	}
	return lines
}
