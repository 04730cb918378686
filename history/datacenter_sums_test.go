package history

import "testing"

func TestNumbersToWhichSeveralDataCentersAdd(t *testing.T) {
	for what, c := range map[string]struct {
		text                        string
		violations, judged, skipped int
	}{
		"sums":                                 {"a1 do n=1 INCR ; b1 do n=1 INCR ; a1 do n=3 INCR ; a2 get n=3 ; b1 do n=13 INCRBY 10", 0, 5, 0},
		"the same answer twice":                {"b1 do n=1 INCR ; a1 do n=2 INCR [20,29] ; a2 do n=2 INCR [20,29]", 1, 3, 0},
		"a read that goes back":                {"b1 do n=1 INCR ; a1 do n=2 INCR ; a2 get n=1", 1, 3, 0},
		"an answer that goes back":             {"b1 do n=5 INCRBY 5 ; a1 do n=6 INCR ; a2 do n=2 INCR", 1, 3, 0},
		"more than all have added":             {"b1 do n=1 INCR ; a1 do n=9 INCR", 1, 2, 0},
		"an INCR of unknown outcome":           {"b1 do n= INCR ? ; a1 do n=2 INCR ; a2 do n=3 INCR", 0, 2, 0},
		"a number that shrinks":                {"b1 do n=-1 DECR ; a1 do n=-2 DECR ; a2 get n=-2", 0, 3, 0},
		"a number that shrinks, and goes back": {"b1 do n=-1 DECR ; a1 do n=-2 DECR ; a2 get n=-1", 1, 3, 0},
		"a number that is also set":            {"b1 do n=1 INCR ; a1 put n=7 ; a2 get n=3", 0, 0, 3},
	} {
		r, err := CheckDataCenters(inDataCenters(t, c.text), DataCenterOptions{AddsUp: true})
		if err != nil {
			t.Fatal(err)
		}
		if e := &r.Exact; len(e.Violations) != c.violations || e.Judged != c.judged || e.NotJudged != c.skipped {
			t.Errorf("%s: %d judged, %d not; %s", what, e.Judged, e.NotJudged, r.String())
		}
	}
}

// The reply to an update does not tell which write it has found, if several data centers add to its key: 9 is what b
// has made of 5, and what a has found is 5 and 4.
func TestAReplyAboutASumDoesNotTellWhatWasFound(t *testing.T) {
	h := inDataCenters(t,
		"b1 do n=5@3.2 INCRBY 5 ; a1 do n=4@4.1 INCRBY 4 ; b1 do n=9@9.2 INCRBY 4 ; a2 do n=10@5.1 INCR")
	if r := Check(h, Options{}); r.OK() {
		t.Error("a later write of a register with a smaller version is not found")
	}
	if r := Check(h, Options{AddsUp: true}); !r.OK() {
		t.Errorf("%s", r.String())
	}
}
