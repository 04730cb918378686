package history

import (
	"strings"
	"testing"
	"time"
)

// inDataCenters parses a history in which the first letter of a session is its data center.
func inDataCenters(t testing.TB, text string) History {
	t.Helper()
	h := parse(t, text)
	for i := range h {
		h[i].DC = h[i].Session[:1]
	}
	return h
}

func checkDataCenters(t testing.TB, h History) DataCenterReport {
	t.Helper()
	r, err := CheckDataCenters(h, DataCenterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWhatNoSingleRedisDoesIsFound(t *testing.T) {
	for what, text := range map[string]string{
		"an old read after OK":                                          "a1 put x=1 ; a1 put x=2 ; a2 get x=1",
		"no value after OK":                                             "a1 put x=1 ; a2 get x=-",
		"two INCRs with the same answer":                                "a1 do n=1 INCR [0,9] ; a2 do n=1 INCR [0,9]",
		"a lost INCR":                                                   "a1 do n=1 INCR ; a2 do n=2 INCR ; a3 get n=1",
		"an INCR of what is not the last answer":                        "a1 do n=1 INCR ; a2 do n=2 INCR ; a3 do n=2 INCR",
		"an INCRBY that skips":                                          "a1 do n=3 INCRBY 3 ; a2 do n=3 DECRBY 1",
		"two SET NX that both get it":                                   "a1 do l=OK SET v NX [0,9] ; a2 do l=OK SET w NX [0,9]",
		"two SETNX that both get it":                                    "a1 do l=1 SETNX v [0,9] ; a2 do l=1 SETNX w [0,9]",
		"a SET NX that fails where there is nothing":                    "a1 do l=- SET v NX",
		"a SET XX that succeeds where there is nothing":                 "a1 do l=OK SET v XX",
		"a GETDEL of what another one has deleted":                      "a1 put x=1 ; a1 do x=1 GETDEL ; a2 do x=1 GETDEL",
		"two GETDELs that return the same":                              "a1 put x=1 ; a1 do x=1 GETDEL [20,29] ; a2 do x=1 GETDEL [20,29]",
		"two GETSETs that return the same":                              "a1 put x=0 ; a1 do x=0 GETSET 1 [20,29] ; a2 do x=0 GETSET 2 [20,29]",
		"a SET GET that returns what was overwritten":                   "a1 put x=0 ; a1 put x=1 ; a2 do x=0 SET 2 GET",
		"two DELs of one value":                                         "a1 put x=1 ; a1 do x=1 DEL [20,29] ; a2 do x=1 DEL [20,29]",
		"an APPEND that is lost":                                        "a1 do x=1 APPEND a ; a2 do x=2 APPEND b ; a3 get x=a",
		"an APPEND to what was overwritten":                             "a1 do x=1 APPEND a ; a2 do x=1 APPEND b",
		"an EXPIRE that finds nothing":                                  "a1 put x=1 ; a2 do x=0 EXPIRE 1000",
		"a PERSIST that finds what was deleted":                         "a1 put x=1 ; a1 del x ; a2 do x=1 PERSIST",
		"an EXISTS that finds what was deleted":                         "a1 put x=1 ; a1 del x ; a2 do x=1 EXISTS",
		"a read before the write of another DC starts":                  "a1 get x=1 ; b1 put x=1",
		"a foreign write that takes effect twice":                       "b1 put x=1 ; a1 get x=1 ; a1 put x=2 ; a2 get x=1",
		"a foreign delete that takes effect twice":                      "a1 put x=1 ; b1 del x ; a1 get x=- ; a1 put x=2 ; a2 get x=-",
		"an own write of unknown outcome, twice":                        "a1 put x=1 ? ; a2 get x=1 ; a2 put x=2 ; a3 get x=1",
		"an INCR of unknown outcome that counts twice":                  "a1 do n= INCR ? ; a2 do n=3 INCR",
		"a value that nobody wrote":                                     "a1 put x=1 ; a1 get x=7",
		"an mget that returns what was overwritten":                     "a1 put x=1 ; a1 put x=2 ; a2 mget x=1 y=-",
		"a final read of what was overwritten":                          "a1 put x=1 ; a1 put x=2 ; a2 get x=1 final",
		"an old read in the second data center only":                    "b1 put x=1 ; b1 put x=2 ; b2 get x=1 ; a1 get x=1",
		"an update of what was in flight, and not seen by the next one": "b1 do n=5 INCRBY 5 ; a1 do n=6 INCR in-flight ; a2 do n=1 INCR",
	} {
		t.Run(what, func(t *testing.T) {
			h := inDataCenters(t, text)
			r := checkDataCenters(t, h)
			if r.Exact.Total != 1 || r.OK() || len(r.Exact.Violations) != 1 {
				t.Fatalf("%s", r.String())
			}
			v := r.Exact.Violations[0]
			if key, _, _ := strings.Cut(v.Text, " "); key != "x" && key != "n" && key != "l" {
				t.Errorf("the violation does not begin with the key: %s", v)
			}
			for _, op := range v.Ops {
				if !strings.Contains(v.Text, during(&h[op])) {
					t.Errorf("the violation does not show %s: %s", during(&h[op]), v)
				}
			}
		})
	}
}

func TestWhatOneRedisDoesPasses(t *testing.T) {
	for what, text := range map[string]string{
		"reads of what was written last":              "a1 get x=- ; a1 put x=1 ; a2 get x=1 ; a1 put x=2 ; a2 get x=2 ; a2 del x ; a1 get x=-",
		"concurrent operations":                       "a1 put x=1 ; a1 put x=2 [20,40] ; a2 get x=2 [25,26] ; a3 get x=2 [30,31]",
		"a counter":                                   "a1 do n=1 INCR [0,9] ; a2 do n=2 INCR [0,9] ; a3 do n=7 INCRBY 5 ; a1 do n=4 DECRBY 3 ; a1 do n=3 DECR ; a2 get n=3",
		"a lock":                                      "a1 do l=OK SET v NX ; a2 do l=- SET w NX ; a1 do l=1 DEL ; a2 do l=1 SETNX w ; a1 do l=0 SETNX v ; a1 do l=w SET u XX GET ; a3 do l=u SET z NX GET ; a1 do l=OK SET k XX KEEPTTL ; a2 get l=k",
		"a queue of one":                              "a1 do x=- GETDEL ; a1 do x=- GETSET 1 ; a2 do x=1 GETSET 2 ; a2 do x=2 GETDEL ; a3 do x=0 DEL ; a3 do x=0 EXISTS",
		"appends":                                     "a1 do x=1 APPEND a ; a2 do x=3 APPEND bc ; a3 get x=abc ; a3 do x=3 STRLEN ; a1 do x=1 EXPIRE 1000",
		"a foreign write that comes late":             "b1 put x=9 ; a1 get x=- ; a1 put x=1 ; a2 get x=1 ; a2 get x=9 ; a1 get x=9 ; a1 put x=2 ; a2 get x=2",
		"a foreign write that never comes":            "b1 put x=9 ; a1 get x=- ; a1 put x=1 ; a2 get x=1",
		"foreign writes in another order":             "b1 put x=8 ; b1 put x=9 ; a1 get x=9 ; a1 get x=8",
		"a PERSIST that finds no time to live":        "a1 put x=1 ; a2 do x=0 PERSIST ; a2 get x=1",
		"an EXPIRE whose condition is not met":        "a1 put x=1 ; a2 do x=0 EXPIRE 1000 XX ; a2 get x=1",
		"a foreign delete":                            "a1 put x=1 ; b1 del x ; a1 get x=1 ; a1 get x=- ; a2 get x=-",
		"a foreign lock":                              "b1 do l=OK SET v NX ; a1 do l=OK SET w NX ; a2 do l=- SET u NX ; a2 get l=v",
		"a lock that fails because of a foreign one":  "b1 do l=OK SET v NX ; a1 do l=- SET w NX ; a2 do l=1 EXISTS",
		"foreign updates that did nothing":            "b1 put l=v ; b1 do l=- SET w NX ; b1 do l=0 SETNX w ; a1 get l=-",
		"a counter that others count, too":            "a1 do n=1 INCR ; b1 do n=1 INCR ; a1 do n=2 INCR ; b1 do n=2 INCR ; b2 do n=12 INCRBY 10 ; a2 do n=13 INCR ; a2 get n=13",
		"a foreign counter of unknown outcome":        "b1 do n= INCR ? ; a1 do n=6 INCR ; a2 do n=7 INCR",
		"a foreign append":                            "b1 do x=3 APPEND abc ; a1 get x=abc",
		"a write of unknown outcome that comes late":  "a1 put x=1 ; a2 put x=2 ? ; a1 get x=1 ; a1 get x=2 ; a2 get x=2",
		"a write of unknown outcome that never comes": "a1 put x=1 ; a2 put x=2 ? ; a1 get x=1 ; a1 get x=1",
		"a delete of unknown outcome":                 "a1 put x=1 ; a2 del x ? ; a1 get x=1 ; a1 get x=-",
		"an INCR of unknown outcome that counts":      "a1 do n= INCR ? ; a2 do n=2 INCR",
		"an INCR of unknown outcome that counts late": "a1 do n= INCR ? ; a2 do n=1 INCR ; a2 do n=3 INCR",
		"an INCR of unknown outcome that never does":  "a1 do n= INCR ? ; a2 do n=1 INCR ; a2 do n=2 INCR",
		"a SET NX of unknown outcome":                 "a1 do l= SET v NX ? ; a2 do l=- SET w NX ; a2 get l=v",
		"what failed":                                 "a1 put x=1 ! ; a1 do x= INCR ! ; a2 get x=-",
		"reads of a foreign write in flight":          "b1 put x=9 ; a1 put x=1 ; a1 get x=9 in-flight ; a2 get x=1 ; a1 get x=9 in-flight ; a2 get x=9",
		"two data centers apart":                      "a1 put x=1 ; b1 put x=2 ; a1 get x=1 ; b1 get x=2",
	} {
		t.Run(what, func(t *testing.T) {
			if r := checkDataCenters(t, inDataCenters(t, text)); !r.OK() {
				t.Errorf("%s", r.String())
			}
		})
	}
}

func TestReadsOfOwnWritesInFlightAreJudged(t *testing.T) {
	r := checkDataCenters(t, inDataCenters(t, "a1 put x=1 ; a1 put x=2 ; a2 get x=1 in-flight"))
	if r.Exact.Total != 1 || r.Exact.NotJudged != 0 {
		t.Errorf("%s", r.String())
	}
}

func TestLocalVisibilityIsJudgedByVersions(t *testing.T) {
	for what, c := range map[string]struct {
		text      string
		want      Kind
		notJudged int
	}{
		"the write itself":                       {"a1 put x=1@5.1 ; a2 get x=1@5.1", "", 0},
		"a newer one":                            {"a1 put x=1@5.1 ; b1 put x=2@9.2 ; a2 get x=2@9.2", "", 0},
		"an older one":                           {"a1 put x=1@5.1 ; a1 put x=2@6.1 ; a2 get x=1@5.1", OldRead, 0},
		"a foreign, older one":                   {"b1 put x=2@4.2 ; a1 put x=1@5.1 ; a2 get x=2@4.2", OldRead, 0},
		"nothing":                                {"a1 put x=1@5.1 ; a2 get x=-", OldRead, 0},
		"nothing, with a version":                {"a1 put x=1@5.1 ; b1 del x@4.2 ; a2 get x=-@4.2", OldRead, 0},
		"nothing, where a delete may explain it": {"b1 del x@9.2 ; a1 put x=1@5.1 ; a2 get x=-", "", 1},
		"an old one in an mget":                  {"a1 put x=1@5.1 ; a1 put x=2@6.1 ; a2 mget y=- x=1@5.1", OldRead, 0},
		"an old one whose version only its write tells": {"a1 put x=1@5.1 ; a1 put x=2@6.1 ; a2 get x=1", OldRead, 0},
		"one whose version nobody tells":                {"a1 put x=1 ? ; a1 put x=2@6.1 ; a2 get x=1", "", 1},
		"a read that started before OK":                 {"a1 put x=1@5.1 [0,9] ; a2 get x=- [8,20]", "", 0},
		"a write in another data center":                {"b1 put x=1@5.2 ; a2 get x=-", "", 0},
		"a write of unknown outcome":                    {"a1 put x=1@5.1 ? ; a2 get x=-", "", 0},
		"an update that read an old one":                {"a1 put x=1@5.1 ; a1 put x=2@6.1 ; a2 do x=- SET v NX ; a2 do x=1@5.1 EXISTS", OldRead, 1},
		"a later write with a smaller version":          {"a1 put x=1@5.1 ; a2 put x=2@4.1", OldWrite, 0},
		"a later update with a smaller version":         {"a1 do x=1@5.1 INCR ; a2 do x=2@4.1 INCR", OldWrite, 0},
		"a later write with the same version":           {"a1 put x=1@5.1 ; a2 put x=2@5.1", OldWrite, 0},
		"what an EXPIRE has written again":              {"a1 put x=1@5.1 ; a1 do x=1@6.1 EXPIRE 9 ; a2 get x=1@5.1", OldRead, 0},
		"what a PERSIST has written again":              {"a1 put x=1@5.1 ; a1 do x=1@6.1 PERSIST ; a2 get x=1@5.1", OldRead, 0},
		"what an EXPIRE has written":                    {"a1 put x=1@5.1 ; a1 do x=1@6.1 EXPIRE 9 ; a2 get x=1@6.1", "", 0},
		"that, without a version":                       {"a1 put x=1@5.1 ; a1 do x=1@6.1 EXPIRE 9 ; a2 get x=1", "", 1},
		"a PERSIST that writes nothing":                 {"a1 put x=1@5.1 ; a1 do x=0 PERSIST ; a2 get x=1@5.1", "", 1},
		"a later EXPIRE with a smaller version":         {"a1 put x=1@5.1 ; a2 do x=1@4.1 EXPIRE 9", OldWrite, 0},
		"a concurrent write with a smaller version":     {"a1 put x=1@5.1 [0,9] ; a2 put x=2@4.1 [9,12]", "", 0},
		"an older one, after a newer one that ended earlier": {
			"a1 put x=1@5.1 [0,9] ; a2 put x=2@4.1 [8,12] ; a3 get x=2@4.1", OldRead, 0},
	} {
		t.Run(what, func(t *testing.T) {
			h := inDataCenters(t, c.text)
			r := checkDataCenters(t, h)
			p := r.Visibility
			if p.NotJudged != c.notJudged || p.Total > 1 || (c.want == "") != (p.Total == 0) {
				t.Fatalf("%s", r.String())
			}
			if c.want == "" {
				return
			}
			v := p.Violations[0]
			if v.Kind != c.want || len(v.Ops) != 2 {
				t.Fatalf("%v: %s, want %s", v.Ops, v, c.want)
			}
			for _, op := range v.Ops {
				if !strings.HasPrefix(v.Text, "x in a: ") || !strings.Contains(v.Text, during(&h[op])) {
					t.Errorf("the violation does not show the key and %s: %s", during(&h[op]), v)
				}
			}
		})
	}
}

func TestAViolationIsShownWithTheFirstOperationThatNothingExplains(t *testing.T) {
	h := inDataCenters(t, "a1 do n=1 INCR ; a2 do n=2 INCR ; a3 do n=2 INCR ; a1 do n=9 INCR ; a1 get n=1")
	v := checkDataCenters(t, h).Exact.Violations[0]
	if !strings.Contains(v.Text, "explains "+during(&h[2])) {
		t.Error(v)
	}
}

func TestAKeyThatTakesTooLongIsNotDecided(t *testing.T) {
	var text strings.Builder
	for range 30 { // each subset of these may have been counted
		text.WriteString("a1 do n= INCRBY 1000 ? [0,1] ; a2 do n= INCRBY 10 ? [0,1] ; ")
	}
	text.WriteString("a3 do n=5 INCR")
	h := inDataCenters(t, text.String())
	began := time.Now()
	r, err := CheckDataCenters(h, DataCenterOptions{KeyTime: 50 * time.Millisecond})
	if err != nil || r.OK() || r.Exact.Total != 0 || len(r.Exact.Undecided) != 1 {
		t.Fatalf("%v: %s", err, r.String())
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	if !strings.Contains(r.String(), "not decided: n in a") || r.Err() == nil {
		t.Error(r.String())
	}
}

func TestASearchEndsWhenItsMemoryDoes(t *testing.T) {
	h := inDataCenters(t, "a1 do n=1 INCR ; a2 do n=2 INCR")
	keys, err := accessesOf(h)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := newExact(keys["n"], "a")
	r := &run{exact: s, perState: maxSearchBytes}
	next := r.step(state{}, s.ops[0])
	if len(next) != 1 || r.exhausted {
		t.Fatal("one state is within the bound")
	}
	r.step(next[0].(state), s.ops[1])
	if !r.exhausted {
		t.Error("two are not")
	}
}

func TestReadsOfValuesThatMergeHaveWhatWasAcknowledged(t *testing.T) {
	r := checkDataCenters(t, inDataCenters(t, "a1 add n=1@5.1 ; a1 get n=1@5.1 ; a2 get x=-"))
	if !r.OK() || r.Visibility.Judged != 2 {
		t.Errorf("%s", r.String())
	}
	r = checkDataCenters(t, inDataCenters(t, "a1 add n=1@5.1 ; a1 add n=2@6.1 ; a2 get n=2@6.1"))
	if r.Exact.Total != 1 || !strings.Contains(r.String(), "lacks") {
		t.Errorf("a read that lacks an add: %s", r.String())
	}
}

func TestHistoriesThatCannotBeJudgedAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "no operation to judge",
		"a1 do x=1 LPUSH v":     "is not one that can be judged",
		"a1 do x=OK SET v EX 5": "option \"EX\"",
		"a1 do x=OK SET":        "a SET without a value",
		"a1 do x=1 INCRBY":      "is not one that can be judged",
		"a1 do x=1 INCRBY many": "is not one that can be judged",
		"a1 do x=word INCR":     "invalid syntax",
		"a1 put x=1 [9,3]":      "ends before it starts",
	} {
		if _, err := CheckDataCenters(inDataCenters(t, text), DataCenterOptions{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	h := parse(t, "s1 put x=1")
	if _, err := CheckDataCenters(h, DataCenterOptions{}); err == nil || !strings.Contains(err.Error(), "no data center") {
		t.Error(err)
	}
}

func TestCausalityIsCheckedOfKeysWithoutUpdates(t *testing.T) {
	h := parse(t, `s1 do n=1 INCR ; s2 do n=1 INCR ; s1 get n=1 ; s1 put x=1 ; s1 put x=2 ; s2 get x=2 ; s2 mget n=5 x=1`)
	r := Check(h, Options{})
	if r.Total != 1 || !r.Has(MonotonicReads) || r.Stats.OnUpdatedKeys != 3 || r.Stats.Failed != 0 {
		t.Errorf("%s: %+v", r, r.Stats)
	}
	if r = Check(h[:6], Options{}); !r.OK() || !strings.Contains(r.String(), "without 3 on keys with updates") {
		t.Error(r)
	}
}

// An update of a key of which all has versions is a read of what it has found, and a write.
func TestCausalityIsCheckedOfUpdatesWithVersions(t *testing.T) {
	const before = "s1 put x=1@5.1; s1 do n=1@6.1 INCR; s2 do n=3@7.1 INCRBY 2"
	for text, want := range map[string]Kind{
		"s3 get n=3@7.1; s3 get x=1@5.1":                               "",
		"s3 get n=3@7.1; s3 get x=-":                                   MissingRead,
		"s2 get x=-":                                                   MissingRead,
		"s2 put y=1@8.1; s3 get y=1@8.1; s3 get n=1@6.1":               StaleRead,
		"s2 put y=1@8.1; s3 mget y=1@8.1 n=1@6.1":                      Snapshot,
		"s4 do n=9@9.2 INCR ?; s3 get n=3@7.1; s3 get x=-":             "", // nobody knows what s2 has found
		"s3 get n=4@9.2; s3 get x=1@5.1":                               ThinAir,
		"s4 do n=4 INCR ?; s3 get n=4@9.2; s3 get x=-":                 "",
		"s3 do n=1@4.2 INCR; s4 get n=3@7.1; s4 get x=-":               "", // there are two 1
		"s4 do n=0 SETNX 7; s3 do z=1@9.1 DEL; s3 get x=-; s3 get y=-": "",
		// EXPIRE writes a version of its own, if there is a value.
		"s2 do n=1@8.1 EXPIRE 9; s3 get n=3@8.1; s3 get x=1@5.1":                     "",
		"s1 do n=1@8.1 EXPIRE 9; s3 get n=3@8.1; s3 get x=-":                         MissingRead,
		"s2 do n=1@8.1 EXPIRE 9; s2 put y=1@9.1; s3 get y=1@9.1; s3 get n=3@7.1":     StaleRead,
		"s2 do n=0@8.1 EXPIRE 9; s3 get n=3@8.1":                                     ThinAir,
		"s2 do n=1@8.1 EXISTS; s3 get n=3@8.1":                                       ThinAir,
		"s4 do n=1@8.1 EXPIRE 9; s5 do n=4@9.1 INCR; s6 get n=4@9.1; s6 get x=1@5.1": "", // which 3 s5 has found
	} {
		r := Check(parse(t, before+"; "+text), Options{})
		if want == "" && !r.OK() || want != "" && !r.Has(want) {
			t.Errorf("%s: %s", text, r)
		}
	}
}
