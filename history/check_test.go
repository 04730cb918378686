package history

import (
	"slices"
	"strings"
	"testing"
)

func TestCheckAcceptsWhatCausalPlusAllows(t *testing.T) {
	for name, text := range map[string]string{
		"nothing at all":                       "",
		"initial state":                        "s1 get x=-",
		"own write":                            "s1 put x=1; s1 get x=1",
		"write not yet seen elsewhere":         "s1 put x=1; s2 get x=-; s2 get x=1",
		"a read may end before the write does": "s1 put x=1 [0,100]; s2 get x=1 [5,10]",
		"concurrent writes, agreed order": "s1 put x=1; s2 put x=2; s3 get x=1; s3 get x=2; s4 get " +
			"x=1; s4 get x=2",
		"concurrent writes, own one wins later": "s1 put x=1@5.1; s2 put x=2@6.2; s2 get x=2@6.2; s1 get " +
			"x=1@5.1; s1 get x=2@6.2",
		"a smaller version may stay unseen": "s1 put x=1@5.1; s2 put x=2@6.2; s1 get x=2@6.2",
		"overlap inside a session is no order": "s1/a put x=1 [0,10]; s1/b get x=- [5,20]; s1/a " +
			"get x=1 [30,31]",
		"delete and read": "s1 put x=1; s1 del x; s1 get x=-; s2 get x=-",
		"missing, explained by a concurrent delete":         "s1 put x=1; s2 del x; s1 get x=-",
		"missing, explained by a later version's delete":    "s1 put x=1@5.1; s2 del x@6.2; s1 get x=-",
		"missing at the tombstone's version":                "s1 put x=1@5.1; s2 del x@6.2; s1 get x=-@6.2",
		"missing, explained by a delete of unknown outcome": "s1 put x=1@5.1; s2 del x ?; s1 get x=-; s1 get x=-@6.2",
		"unknown put never seen":                            "s1 put x=1; s1 put x=2 ?; s1 get x=1; s2 get x=1",
		"unknown put seen late": "s1 put x=1; s1 put x=2 ?; s1 get x=1; s2 get " +
			"x=2; s1 get x=2",
		"two unknown puts in the other order": "s1 put x=1 ?; s1 put x=2 ?; s2 get x=2; s2 get x=1; s3 " +
			"get x=2; s3 get x=1",
		"unknown put gets its version from a read": "s1 put x=1@5.1; s1 put x=2 ?; s2 get x=2@6.1; " +
			"s1 get x=2@6.1",
		"failed read says nothing": "s1 put x=1; s1 get x=- !; s1 get x=1",
		"failed put does nothing":  "s1 put x=1 !; s1 get x=-",
		"snapshot": "s1 put x=1; s1 put y=1; s1 put x=2; s2 mget x=1 y=1; " +
			"s2 mget x=2 y=1",
		"snapshot with a missing key": "s1 put x=1; s1 put y=1; s2 mget x=1 y=-",
		"an mget with the later of two concurrent writes": "s1 put x=1@5.1; s2 put x=2@6.2; s3 put y=1@7.3; s4 mget " +
			"x=1@5.1 y=1@7.3",
		"token without a resume":                 "s1 put x=1; s1 token t; s2 get x=-",
		"token carries the past":                 "s1 put x=1; s1 token t; s2 resume t; s2 get x=1",
		"writes after the token are not carried": "s1 token t; s1 put x=1; s2 resume t; s2 get x=-",
		"final agreement":                        "s1 put x=1; s2 put x=2; s1 get x=2 final; s2 get x=2 final",
		"an unknown put may win in the end": "s1 put x=1@5.1; s2 put x=2 ?; s1 get x=2@9.2 final; s2 get " +
			"x=2@9.2 final",
		"final reads come last whatever the clock says": "s1 put x=1 [50,60]; s2 get x=1 final [0,1]",
		"empty value":            "s1 put x=; s1 get x=",
		"a process may pipeline": "s1 put x=1 [0,10]; s1 put y=1 [0,11]; s1 get x=1 [0,12]",
		"versions known in part": "s1 put x=1@5.1; s2 put x=2; s3 get x=1; s3 get x=2; s1 get x=1@5.1",
	} {
		if r := Check(parse(t, text), Options{}); !r.OK() {
			t.Errorf("%s: %s\n%v", name, text, r)
		}
	}
}

func TestCheckReportsEachViolationUnderItsName(t *testing.T) {
	for _, c := range []struct {
		kind  Kind
		text  string
		chain string // how the explanation ends; "" is not compared
	}{
		{ThinAir, "s1 get x=1", "s1 get x=1"},
		{ThinAir, "s1 put x=1 !; s2 get x=1", "s1 put x=1 [failed] ; s2 get x=1"},
		{ThinAir, "s1 put x=1; s2 get y=1", ""},
		{ThinAir, "s1 put x=1@5.1; s2 get x=-@7.1", ""},
		{ThinAir, "s1 put x=1; s2 mget x=1 y=3", ""},
		{Cycle, "s1 get x=1; s1 put x=1", "s1 get x=1 ; s1 put x=1"},
		{Cycle, "s1 get y=1; s1 put x=1; s2 get x=1; s2 put y=1", ""},
		{Cycle, "s1/a get x=1 [0,5]; s1/b put y=1 [6,8]; s2 get y=1; s2 put x=1", ""},
		{Cycle,
			"s1 put x=1; s1 token t; s2 resume t; s2 put y=1; s1 get y=1; s3 resume u; s3 put z=1; s4 get z=1; " +
				"s4 token u", ""},
		{MissingRead, "s1 put x=1; s1 put y=2; s2 get y=2; s2 get x=-",
			"s1 put x=1 ; s1 put y=2 ; s2 get y=2 ; s2 get x=<missing>"},
		{MissingRead, "s1 del x; s1 put x=1; s1 put y=2; s2 get y=2; s2 get x=-", ""},
		{MissingRead, "s1 del x@4.1; s1 put x=1@5.1; s1 put y=2@6.1; s2 get y=2; s2 get x=-", ""},
		{MissingRead, "s1 put x=1@5.1; s1 token t; s2 resume t; s2 del x@6.2 !; s2 get x=-",
			"s1 put x=1 (5@1) ; s1 token t ; s2 resume t ; s2 get x=<missing>"},
		{MissingRead, "s1 put x=1; s1 put y=1; s2 get y=1; s2 get x=-; s2 put z=1; s3 get z=1; s3 del x", ""},
		{StaleRead, "s1 put x=1; s1 put x=2; s1 put y=1; s2 get y=1; s2 get x=1",
			"s1 put x=1 ; s1 put x=2 ; s1 put y=1 ; s2 get y=1 ; s2 get x=1"},
		{StaleRead, "s1 put x=1@5.1; s2 put x=2@6.2; s2 put y=1@7.2; s3 get y=1; s3 get x=1",
			"s1 put x=1 (5@1) ; s2 put x=2 (6@2) ; s2 put y=1 (7@2) ; s3 get y=1 ; s3 get x=1"},
		{StaleRead, "s1 del x@5.1; s1 put x=1@6.1; s1 put y=1@7.1; s2 get y=1; s2 get x=-@5.1", ""},
		{StaleRead, "s1 put x=1; s1 put x=2; s1/b put y=1; s2 get y=1; s2 get x=1", ""},
		{ReadYourWrites, "s1 put x=1; s1 get x=-", "s1 put x=1 ; s1 get x=<missing>"},
		{ReadYourWrites, "s1 put x=1; s1 put x=2; s1 get x=1", "s1 put x=1 ; s1 put x=2 ; s1 get x=1"},
		{ReadYourWrites, "s1 put x=1@5.1; s2 put x=2@4.2; s1 get x=2@4.2",
			"s2 put x=2 (4@2) ; s1 put x=1 (5@1) ; s1 get x=2 (4@2)"},
		{ReadYourWrites, "s1/a put x=1 [0,4]; s1/b get x=- [5,9]", ""},
		{ReadYourWrites, "s1 put x=1; s1 put y=1; s1 mget x=- y=1", ""},
		{MonotonicReads, "s1 put x=1; s2 get x=1; s2 get x=-", "s1 put x=1 ; s2 get x=1 ; s2 get x=<missing>"},
		{MonotonicReads, "s1 put x=1; s1 put x=2; s2 get x=2; s2 get x=1",
			"s1 put x=1 ; s1 put x=2 ; s2 get x=2 ; s2 get x=1"},
		{MonotonicReads, "s1 put x=1 ?; s2 get x=1; s2 get x=-", ""},
		{Convergence, "s1 put x=1; s2 put x=2; s3 get x=1; s3 get x=2; s4 get x=2; s4 get x=1", ""},
		{Convergence, "s1 put x=1; s1 get x=2; s2 put x=2; s2 get x=1", ""},
		{Convergence, "s1 put x=1; s2 put x=2 ?; s3 get x=1; s3 get x=2; s4 get x=2; s4 get x=1", ""},
		{Convergence, "s1 put x=1@5.1; s2 put x=2; s3 put x=3@6.3; s4 get x=2; s4 get x=1; s5 get x=3; s5 get x=2", ""},
		{VersionOrder, "s1 put x=1@5.1; s2 get x=1; s2 put y=1@4.2",
			"s1 put x=1 (5@1) ; s2 get x=1 ; s2 put y=1 (4@2)"},
		{VersionOrder, "s1 put x=1 ?; s2 get x=1@9.1; s2 put y=1@4.2", ""},
		{VersionMismatch, "s1 put x=1@5.1; s2 get x=1@6.1", ""},
		{VersionMismatch, "s1 put x=1@5.1; s2 get x=-@5.1", ""},
		{VersionMismatch, "s1 put x=1; s2 get x=1@6.1; s3 get x=1@7.1", ""},
		{VersionReused, "s1 put x=1@5.1; s2 put x=2@5.1", ""},
		{VersionReused, "s1 put x=1@5.1; s2 put y=2@5.1", ""},
		{Snapshot, "s1 put x=1; s1 put x=2; s1 put y=1; s2 mget x=1 y=1",
			"s1 put x=1 ; s1 put x=2 ; s1 put y=1 ; s2 mget x=1 y=1"},
		{Snapshot, "s1 put x=1; s1 put y=1; s2 mget x=- y=1", "s1 put x=1 ; s1 put y=1 ; s2 mget x=<missing> y=1"},
		{Snapshot, "s1 put x=1@4.1; s2 put x=2@5.2; s2 put y=1@6.2; s3 mget x=1 y=1", ""},
		{Diverged, "s1 put x=1; s2 put x=2; s1 get x=2 final; s2 get x=1 final", ""},
		{Diverged, "s1 put x=1 ?; s1 get x=- final; s2 get x=1 final", ""},
		{Diverged, "s1 del x@5.1 ; s2 del x@5.2; s1 get x=-@5.1 final; s2 mget x=-@5.2 final", ""},
		{LostWrite, "s1 put x=1; s2 get x=- final", "s1 put x=1 ; s2 get x=<missing> [final]"},
		{LostWrite, "s1 put x=1@5.1; s2 put x=2@6.2; s1 get x=1 final; s2 get x=1 final", ""},
		{LostWrite, "s1 put x=1; s1 put x=2; s2 get x=1 final", ""},
		{Malformed, "s1 put x=1; s2 put x=1", ""},
		{Malformed, "s1 put x=1 !; s2 put x=1", ""},
		{Malformed, "s1 put x=1 [10,20]; s1 put x=2 [5,30]", ""},
		{Malformed, "s1 put x=1 [10,20]; s1 put x=2 [15,18]", ""},
		{Malformed, "s1 put x=1 [10,5]", ""},
		{Malformed, "s1 get x=- ?", ""},
		{Malformed, "s1 put x=1 final", ""},
		{Malformed, "s1 get x=- final; s1 put x=1", ""},
		{Malformed, "s1 token t; s2 token t", ""},
		{Malformed, "s1 resume t", ""},
	} {
		r := Check(parse(t, c.text), Options{})
		if !r.Has(c.kind) {
			t.Errorf("%s: wanted %s, got %v", c.text, c.kind, r)
			continue
		}
		at := slices.IndexFunc(r.Violations, func(v Violation) bool { return v.Kind == c.kind })
		if c.chain != "" && !strings.HasSuffix(r.Violations[at].Text, ": "+c.chain) {
			t.Errorf("%s: wanted the chain\n%s\ngot\n%s", c.text, c.chain, r.Violations[at].Text)
		}
	}
}

func TestViolationIsNotReportedUnderOtherNames(t *testing.T) {
	for text, kind := range map[string]Kind{
		"s1 put x=1; s1 put y=2; s2 get y=2; s2 get x=-":                                     MissingRead,
		"s1 put x=1; s1 put x=2; s1 put y=1; s2 get y=1; s2 get x=1":                         StaleRead,
		"s1 put x=1; s1 put x=2; s1 get x=1":                                                 ReadYourWrites,
		"s1 put x=1; s2 put x=2; s3 get x=1; s3 get x=2; s4 get x=2; s4 get x=1":             Convergence,
		"s1 put x=1; s1 put x=2; s1 put y=1; s2 mget x=1 y=1":                                Snapshot,
		"s1 put x=1@4.1; s2 put x=2@5.2; s2 put y=1@6.2; s3 mget x=1@4.1 y=1@6.2":            Snapshot,
		"s1 put x=1; s2 get x=- final; s3 get x=- final":                                     LostWrite,
		"s1 get y=1; s1 put x=1; s2 get x=1; s2 put y=1; s3 get x=1; s3 get y=-; s3 get x=-": Cycle,
	} {
		r := Check(parse(t, text), Options{})
		for _, v := range r.Violations {
			if v.Kind != kind {
				t.Errorf("%s: wanted %s only, got %v", text, kind, r)
			}
		}
	}
}

func TestViolationsBeyondTheLimitAreCounted(t *testing.T) {
	text := "s1 put x=1"
	for range 30 {
		text += "; s1 get x=-"
	}
	r := Check(parse(t, text), Options{MaxViolations: 3})
	if r.Total != 30 || len(r.Violations) != 3 || !strings.Contains(r.String(), "and 27 more") {
		t.Fatalf("got %d, %d explained: %v", r.Total, len(r.Violations), r)
	}
}

func TestFrequentViolationDoesNotHideARareOne(t *testing.T) {
	text := "s1 put x=1"
	for range 30 {
		text += "; s1 get x=-"
	}
	text += "; s9 get y=9; s2 put a=1; s2 put a=2; s2 put b=1; s3 mget a=1 b=1"
	r := Check(parse(t, text), Options{MaxViolations: 3})
	if r.Total != 32 || !r.Has(ReadYourWrites) || !r.Has(ThinAir) || !r.Has(Snapshot) {
		t.Fatal(r)
	}
}

func TestStatsDescribeTheHistory(t *testing.T) {
	r := Check(
		parse(t, `s1 put x=1@5.1; s1/b put y=1 ?; s2 get y=1; s2 put z=1 !; s2 del x; s3 mget x=- y=1; s3 put w=1 ?
		s1 get x=- final; s2 get x=- final`), Options{})
	want := Stats{Ops: 9, Sessions: 3, Processes: 4, Keys: 4, Gets: 3, MGets: 1, Puts: 1, Deletes: 1, Failed: 1,
		Unknown:         2,
		UnknownObserved: 1, Versioned: 1, MissingReads: 3, FinalReads: 2}
	if !r.OK() || r.Stats != want {
		t.Fatalf("%v\ngot  %+v\nwant %+v", r, r.Stats, want)
	}
}
