package history

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestWhatIsNotOneStepIsFound(t *testing.T) {
	for what, text := range map[string]string{
		"a commit in parts":                              "a1 put x=0@1.1 ; a1 put y=0@2.1 ; a1 commit x=1 y=1 @4.1 [20,40] ; a2 mget x=1@3.1 y=0@2.1 [25,30]",
		"the other part":                                 "a1 put x=0@1.1 ; a1 put y=0@2.1 ; a1 commit x=1 y=1 @4.1 [20,40] ; a2 mget x=0@1.1 y=1@4.1 [25,30]",
		"a part beside nothing":                          "a1 commit x=1 y=1 @4.1 [0,40] ; a2 mget x=1@3.1 y=- [25,30]",
		"a part, without versions":                       "a1 put y=0@2.1 ; a1 commit x=1 y=1 @4.1 [0,40] ; a2 mget x=1 y=0 [25,30]",
		"a part, in two gets":                            "a1 put y=0@2.1 ; a1 commit x=1 y=1 @4.1 [20,60] ; a2 get x=1@3.1 [25,30] ; a2 get y=0@2.1 [35,40]",
		"a part, at two clients":                         "a1 put y=0@2.1 ; a1 commit x=1 y=1 @4.1 [20,60] ; a2 get x=1@3.1 [25,30] ; a3 get y=0@2.1 [35,40]",
		"half a delete":                                  "a1 commit x=1 y=1 @4.1 ; a1 commit x=- y=- @6.1 [20,40] ; a2 mget x=-@5.1 y=1@4.1 [25,30]",
		"a rename that shows no key":                     "a1 put x=1@1.1 ; a1 commit x<1 y=1 x=- @4.1 [20,40] ; a2 mget x=-@4.1 y=- [25,30]",
		"a part that replaced the rest":                  "a1 put y=0@2.1 ; a1 commit x=1 y=1 @4.1 [20,60] ; a2 put x=2@5.1 [25,30] ; a3 mget x=2@5.1 y=0@2.1 [35,40]",
		"half of what is unknown":                        "a1 put y=0@2.1 ; a1 commit x=1 y=1 ? ; a2 mget x=1@3.1 y=0@2.1",
		"half of what is unknown, told by another":       "a1 put y=0@2.1 ; a1 commit x=1 y=1 ? ; a2 get x=1@3.1 ; a2 mget x=1 y=0",
		"half of what is unknown, at two homes":          "a1 put y=0@2.1 ; a1 commit x=1 y=1 apart ? ; a2 mget x=1@3.1 y=0@2.1",
		"beside nothing, at two homes":                   "a1 commit x=1 y=1 apart ? ; a2 mget x=1@3.1 y=-",
		"half of what is unknown, in two gets":           "a1 put y=0@2.1 ; a1 commit x=1 y=1 apart ? ; a2 get x=1@3.1 ; a3 get y=0@2.1",
		"half, told in another data center":              "a1 put y=0@2.1 ; a1 put x=0@1.1 ; a1 commit x=1 y=1 apart ? ; b1 get x=1@3.1 in-flight ; a2 put x=2@5.1 ; a3 mget x=2@5.1 y=0@2.1",
		"half a rename of unknown outcome":               "a1 put y=0@2.1 ; a1 commit x=1 y=- apart ? ; a2 mget x=1@3.1 y=0@2.1",
		"an old part that others have overwritten":       "a1 put y=0@2.1 ; a1 commit x=1 y=1 apart ? ; a2 get x=1@3.1 ; a2 commit y<0@2.1 y=2 @4.1",
		"both halves, and then one of them":              "a1 put y=0@2.1 ; a1 put z=0@2.2 ; a1 commit x=1 y=1 z=1 apart ? ; a2 mget x=1@3.1 y=1@4.1 ; a2 mget x=1@3.1 z=0@2.2",
		"two of unknown outcome, each in half":           "a1 put y=0@2.1 ; a1 commit x=1 y=1 apart ? ; a2 commit z=1 y=2 apart ? ; a3 mget x=1@3.1 z=1@5.1 y=0@2.1",
		"a commit that has read a part":                  "a1 put y=0@2.1 ; a1 commit x=1 y=1 @4.1 [20,60] ; a2 commit x<1@3.1 y<0@2.1 z=5 @6.1 [25,50]",
		"a lost update":                                  "a1 put x=1@1.1 ; a1 commit x<1@1.1 x=2 y=2 @4.1 [20,40] ; a2 commit x<1@1.1 x=3 y=3 @6.1 [20,40]",
		"two doctors":                                    "a1 commit x=1 y=1 @2.1 ; a1 commit y<1@2.1 x<1@1.1 x=- @3.1 [20,40] ; a2 commit x<1@1.1 y<1@2.1 y=- @4.1 [20,40]",
		"two that both found nothing":                    "a1 commit x<- y<- x=1 y=1 @2.1 [20,40] ; a2 commit x<- y<- x=2 y=2 @4.1 [20,40]",
		"two mgets in different orders":                  "a1 put x=1@1.1 [0,50] ; a2 put y=1@1.2 [0,50] ; a3 mget x=1@1.1 y=- [10,20] ; a4 mget x=- y=1@1.2 [10,20]",
		"a cycle through a single put":                   "a1 put x=0@1.1 ; a1 commit x<0@1.1 y=1 @4.1 [20,60] ; a2 put x=2@2.1 [22,30] ; a3 get y=- [35,40]",
		"an EXPIRE that goes back":                       "a1 put x=1@1.1 ; a1 put y=0@2.1 ; a1 do x=1@3.1 EXPIRE 9 [20,40] ; a2 get x=1@3.1 [22,25] ; a3 mget x=1@1.1 y=0@2.1 [26,30]",
		"a foreign write over a half":                    `b1 commit x=8 y=8 @9.2 ; a1 commit x=1 y=1 @2.1 [20,40] ; a2 mget x=8@8.2 y=- [22,25]`,
		"a commit that reads itself":                     `a1 commit x<1@1.1 x=1 y=1 @2.1`,
		"an add, at a time at which another key was new": "b1 add x=1@1.2 ; a1 put c=1@2.1 ; a4 mget x=1@1.2+4@4.2 c=1@2.1 [20,70] ; a1 put c=3@3.1 ; a2 get x=1@1.2 ; b1 add x=4@4.2 ; a3 get x=1@1.2+4@4.2",
		"a part of a commit is an add":                   "a1 put c=0@1.1 ; a1 commit x=1+ c=1 @4.1 [20,40] ; a2 mget x=1@3.1+ c=0@1.1 [25,30]",
	} {
		t.Run(what, func(t *testing.T) {
			h := inDataCenters(t, text)
			r := checkDataCenters(t, h)
			if len(r.OneStep.Violations) != 1 || r.OK() {
				t.Fatalf("%s", r.String())
			}
			v := r.OneStep.Violations[0]
			if v.Kind != NotOneStep || !strings.HasPrefix(v.Text, "in a: ") {
				t.Errorf("%s", v)
			}
			for _, op := range v.Ops {
				if !strings.Contains(v.Text, during(&h[op])) {
					t.Errorf("the violation does not show %s: %s", during(&h[op]), v)
				}
			}
		})
	}
}

func TestWhatIsOneStepPasses(t *testing.T) {
	for what, text := range map[string]string{
		"before and behind a commit":                    "a1 put x=0@1.1 ; a1 put y=0@2.1 ; a1 commit x=1 y=1 @4.1 [20,40] ; a2 mget x=0@1.1 y=0@2.1 [25,30] ; a3 mget x=1@3.1 y=1@4.1 [22,28]",
		"a commit of unknown outcome":                   "a1 commit x=1 y=1 ? ; a2 mget x=- y=- ; a2 mget x=1@1.1 y=1@2.1",
		"one of several homes":                          "a1 commit x=1 y=1 apart ? ; a2 mget x=- y=- ; a2 mget x=1@1.1 y=1@7.1",
		"one of which a part is overwritten at once":    "a1 put y=0@1.1 ; a1 commit x=1 y=1 apart ? ; a2 put y=2@9.1 [10,90] ; a3 mget x=1@3.1 y=2@9.1 [50,60]",
		"one of which a foreign write covers a part":    "a1 put y=0@1.1 ; a1 commit x=1 y=1 apart ? ; b1 put y=2@9.2 [10,90] ; a3 mget x=1@3.1 y=2@9.2 [50,60]",
		"one that took effect behind a read of a part":  "a1 put y=0@1.1 ; a1 commit x=1 y=1 apart ? ; a2 mget x=- y=0@1.1 ; a3 mget x=1@3.1 z=-",
		"a rename of unknown outcome":                   "a1 put y=0@1.1 ; a1 commit x=1 y=- apart ? ; a2 mget x=- y=0@1.1 ; a3 mget x=1@3.1 y=-",
		"one that never took effect":                    "a1 commit x=1 y=1 ? ; a2 mget x=- y=- ; a2 mget x=- y=-",
		"one that failed":                               "a1 commit x<- x=1 y=1 ! ; a2 mget x=- y=-",
		"one that failed on a key that nobody else has": "a1 commit x=1 y=1 ! ; a2 get z=-",
		"transfers":                           "a1 commit x=9 y=1 @2.1 ; a1 commit x<9@1.1 y<1@2.1 x=8 y=2 @4.1 [20,40] ; a2 commit x<8@3.1 y<2@4.1 x=7 y=3 @6.1 [20,40] ; a3 mget x=8@3.1 y=2@4.1 [20,40]",
		"a part that was overwritten":         "a1 commit x=1 y=1 @2.1 ; a1 put x=2@3.1 ; a2 mget x=2@3.1 y=1@2.1",
		"parts of a commit elsewhere":         "b1 commit x=1 y=1 @2.2 ; a1 mget x=- y=1@2.2 ; a1 mget x=1@1.2 y=1@2.2",
		"a foreign write in flight":           "b1 put x=9@9.2 ; a1 mget x=9@9.2 y=- in-flight ; a1 commit x=1 y=1 @3.1 ; a2 mget x=1@2.1 y=1@3.1 ; a1 mget x=9@9.2 y=1@3.1 in-flight",
		"nothing, which a delete may explain": "a1 commit x=1 y=1 @2.1 ; a1 del x@3.1 ? ; a2 mget x=- y=1@2.1",
		"keys that no operation has together": "a1 put x=1@2.1 [0,50] ; a1 put y=1@1.1 [0,50] ; a2 get x=1@2.1 [10,12] ; a2 get y=- [15,20]",
	} {
		t.Run(what, func(t *testing.T) {
			if r := checkDataCenters(t, inDataCenters(t, text)); !r.OK() {
				t.Errorf("%s", r.String())
			}
		})
	}
}

func TestACommitIsAnMGetAndPutsForCausality(t *testing.T) {
	for text, want := range map[string]Kind{
		"s1 commit x=1 y=1 @2.1 ; s2 get y=1@2.1 ; s2 get x=-":                                      MissingRead,
		"s1 commit x=1 y=1 @2.1 ; s1 get y=-":                                                       ReadYourWrites,
		"s1 put z=1@1.1 ; s1 put z=2@2.1 ; s2 get z=2@2.1 ; s2 commit z<1@1.1 x=1 @3.1":             MonotonicReads,
		"s1 commit x=1 y=1 ! ; s2 get x=1":                                                          ThinAir,
		"s1 commit x=1 y=1 @2.1 ; s2 get x=1@1.1 ; s2 get y=-":                                      "",
		"s1 commit x=1 y=1 ? ; s2 get y=1 ; s2 get x=1":                                             "",
		"s1 commit x=1 y=1 @2.1 ; s1 commit x<1@1.1 y=- x=- @4.1 ; s2 get x=-@4.1 ; s2 get y=-@3.1": "",
	} {
		h := parse(t, text)
		r := Check(h, Options{})
		if want == "" && !r.OK() || want != "" && !r.Has(want) {
			t.Errorf("%s:\n%s", text, r)
		}
		for _, v := range r.Violations {
			for _, op := range v.Ops {
				if op >= len(h) {
					t.Errorf("%s: %v are not operations of it", text, v.Ops)
				}
			}
			if short := Shorten(h, v); !Check(short, Options{}).Has(want) {
				t.Errorf("%s: what is left of it is %v", text, short)
			}
		}
	}
}

// isOneStepEach is the definition that the graph is compared with: it tries all orders of the operations of data center
// a, with single foreign writes at any place. A write without a version is above the one before it.
func isOneStepEach(h History) bool {
	type step struct {
		op     *Op
		writes map[string]causal.Version
		reads  map[string]causal.Version
	}
	type content struct { // of a key: what was written last, and the greatest version so far
		is, above causal.Version
	}
	var steps []step
	for i := range h {
		op := &h[i]
		s := step{op, map[string]causal.Version{}, map[string]causal.Version{}}
		for n, w := range op.Writes {
			if op.DC == "b" {
				steps = append(steps, step{op, map[string]causal.Version{w.Key: op.WriteVersion(n)}, nil})
			}
			s.writes[w.Key] = op.WriteVersion(n)
		}
		for _, r := range op.Reads {
			s.reads[r.Key] = r.Version
		}
		if op.DC == "a" {
			steps = append(steps, s)
		}
	}
	unread := causal.Version{HLC: causal.NoLimit} // what was written without a version: nobody has read it
	var place func(at map[string]content, left []step) bool
	place = func(at map[string]content, left []step) bool {
		if len(left) == 0 {
			return true
		}
		if !slices.ContainsFunc(left, func(s step) bool { return s.op.DC == "a" }) {
			return true // writes of other data centers may never take effect
		}
		for i, s := range left {
			rest := slices.Delete(slices.Clone(left), i, i+1)
			fits := !slices.ContainsFunc(rest, func(o step) bool {
				return s.op.DC == "a" && o.op.DC == "a" && o.op.OK && o.op.End < s.op.Start
			})
			for key, v := range s.reads {
				fits = fits && at[key].is == v
			}
			then := maps.Clone(at)
			for key, v := range s.writes {
				if v.IsZero() {
					then[key] = content{unread, at[key].above}
					continue
				}
				fits = fits && at[key].above.Less(v)
				then[key] = content{v, v}
			}
			if fits && place(then, rest) {
				return true
			}
		}
		return false
	}
	return place(map[string]content{}, steps)
}

// randomSteps returns a history of mgets and commits, whose reads return any versions that are written.
func randomSteps(r *rand.Rand) (h History) {
	keys := []string{"x", "y", "z"}
	written := map[string][]causal.Version{}
	clock := 0
	for n := range 2 + r.IntN(3) {
		start := int64(r.IntN(20))
		op := Op{Session: fmt.Sprint("s", n), DC: "a", Kind: Commit, OK: true, Start: start, End: start + int64(r.IntN(10))}
		if r.IntN(5) == 0 {
			op.DC = "b"
		}
		for _, at := range r.Perm(len(keys))[:2] {
			op.Writes = append(op.Writes, Read{Key: keys[at], Value: fmt.Sprint(n)})
		}
		clock += len(op.Writes)
		op.Version = causal.Version{HLC: causal.HLC(clock), Origin: 1}
		if op.DC == "b" {
			op.Version.Origin = 2
		}
		for i, w := range op.Writes {
			written[w.Key] = append(written[w.Key], op.WriteVersion(i))
		}
		h = append(h, op)
	}
	for i := range h {
		if h[i].DC == "a" && r.IntN(2) == 0 {
			h[i].Reads = someReads(r, keys, written, 1+r.IntN(2))
		}
	}
	for n := range 1 + r.IntN(2) {
		start := int64(r.IntN(30))
		h = append(h, Op{Session: fmt.Sprint("r", n), DC: "a", Kind: MGet, OK: true, Start: start,
			End: start + int64(r.IntN(10)), Reads: someReads(r, keys, written, 2)})
	}
	return h
}

func someReads(r *rand.Rand, keys []string, written map[string][]causal.Version, n int) (reads []Read) {
	for _, at := range r.Perm(len(keys))[:n] {
		read := Read{Key: keys[at], Missing: true}
		if i := r.IntN(len(written[keys[at]]) + 1); i > 0 {
			read = Read{Key: keys[at], Version: written[keys[at]][i-1], Value: fmt.Sprint(written[keys[at]][i-1].HLC)}
		}
		reads = append(reads, read)
	}
	return reads
}

func TestTheGraphOfStepsAgreesWithTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	verdicts := map[bool]int{}
	for range 5000 {
		h := randomSteps(r)
		report, err := CheckDataCenters(h, DataCenterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := isOneStepEach(h)
		if got := !slices.ContainsFunc(report.OneStep.Violations, func(v Violation) bool {
			return strings.HasPrefix(v.Text, "in a: ")
		}); got != want {
			t.Fatalf("the graph says %t, and the definition %t:\n%s\n%v", got, want, report.String(), listed(h))
		}
		verdicts[want]++
	}
	if verdicts[true] < 300 || verdicts[false] < 300 {
		t.Errorf("%d histories are in steps and %d are not: they show little", verdicts[true], verdicts[false])
	}
}
