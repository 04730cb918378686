package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestHistorySurvivesWritingAndReading(t *testing.T) {
	h := parse(t, `s1/a put x=1@70000.3 ; s1/b put x=2 ? ; s2 get x=1@70000.3 ; s2 get y=- ; s2 get x=- ! ; s2 del x@5.1
		s2 mget x=1@70000.3 y=- ; s2 token t ; s3 resume t ; s3 get x= final ; s3 mget x=- ! ; s1 get x=1 in-flight
		s1 do x=3@9.1 INCRBY 2 ; s1 do x=- SET v NX ; s1 do x= SET w NX ?
		s1 commit x<3@9.1 z<- x=4 y=- @11.1 ; s2 commit x=5 y=6 ? ; s2 commit x< x=7 !`)
	h[0].DC, h[2].Level = "us-east-1", causal.Newest
	h[0].Value = "tab\t quote\" back\\slash newline\n nul\x00 ümlaut \u2028"
	h[4].Missing, h[10].Reads[0].Missing = false, false // a failed read has no outcome to keep
	var buf bytes.Buffer
	w := NewWriter(&buf)
	for i := range h {
		if err := w.Write(&h[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(buf.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	back, err := ReadAll(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(h, back); d != "" {
		t.Fatal(d)
	}
}

func TestReaderReportsTheLineAndTheError(t *testing.T) {
	good := `{"session":"s","op":"put","key":"k","value":"v","start":1,"end":2,"ok":true}` + "\n\n"
	for line, want := range map[string]string{
		`{`: "not a JSON object of an operation",
		`{"session":"s","op":"put","key":"k","value":"v","start":1,"end":2,"ok":true,"colour":1}`:                  `unknown field "colour"`,
		`{"session":"s","op":"put","key":"k","value":"v","start":1,"end":2,"ok":true} {}`:                          "more than one",
		`{"session":"s","op":"get","level":"loose","key":"k","missing":true,"start":1,"end":2,"ok":true}`:          `"level" is "loose"; it must be Latest or`,
		`{"op":"put","key":"k","value":"v","start":1,"end":2,"ok":true}`:                                           `"session" is missing`,
		`{"session":"s","op":"steal","key":"k","start":1,"end":2,"ok":true}`:                                       `"op" is "steal"`,
		`{"session":"s","op":"put","key":"k","start":1,"end":2,"ok":true}`:                                         `a put needs "key" and "value"`,
		`{"session":"s","op":"delete","start":1,"end":2,"ok":true}`:                                                `a delete needs "key"`,
		`{"session":"s","op":"get","key":"k","start":1,"end":2,"ok":true}`:                                         `either "value" or "missing":true`,
		`{"session":"s","op":"get","key":"k","value":"v","missing":true,"start":1,"end":2,"ok":true}`:              `either "value" or "missing":true`,
		`{"session":"s","op":"get","value":"v","start":1,"end":2,"ok":true}`:                                       `"key" is missing`,
		`{"session":"s","op":"mget","start":1,"end":2,"ok":true}`:                                                  `needs "reads"`,
		`{"session":"s","op":"mget","reads":[{"key":"a","missing":true},{"key":"b"}],"start":1,"end":2,"ok":true}`: `reads[1]: give either`,
		`{"session":"s","op":"update","key":"k","value":"1","start":1,"end":2,"ok":true}`:                          `an update needs "key", and "command"`,
		`{"session":"s","op":"update","key":"k","command":["incr"],"start":1,"end":2,"ok":true}`:                   `either "value" or "missing":true`,
		`{"session":"s","op":"token","start":1,"end":2,"ok":true}`:                                                 `needs "token"`,
		`{"session":"s","op":"delete","key":"k","ok":true}`:                                                        `"start" or "end"`,
		`{"session":"s","op":"delete","key":"k","start":1,"end":2}`:                                                `"ok" is missing`,
		`{"session":"s","op":"delete","key":"k","start":1,"end":2,"ok":true,"version":"x@1"}`:                      `version "x@1" is neither`,
	} {
		_, err := ReadAll(strings.NewReader(good + line))
		if err == nil || !strings.HasPrefix(err.Error(), "line 3: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: wanted line 3 and %q, got %v", line, want, err)
		}
	}
}

func TestReaderReturnsErrorsOfTheFile(t *testing.T) {
	broken := errors.New("disk on fire")
	_, err := ReadAll(io.MultiReader(strings.NewReader("\n"), errReader{broken}))
	if !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

func TestWriterRefusesTextThatIsNotUTF8(t *testing.T) {
	w := NewWriter(io.Discard)
	if err := w.Write(&Op{Session: "s", Kind: Put, Key: "k", Value: "\xff", OK: true}); err == nil ||
		!strings.Contains(err.Error(), "UTF-8") {
		t.Fatalf("got %v", err)
	}
	if err := w.Write(&Op{Session: "s", Key: "k"}); err == nil {
		t.Fatal("an operation without a kind was written")
	}
	if err := w.Write(&Op{Session: "s", Kind: Put, Key: "k", Value: "v", OK: true}); err != nil {
		t.Fatalf("a refused operation must not stop the next: %v", err)
	}
}

func TestParseVersionAcceptsBothNotations(t *testing.T) {
	for _, s := range []string{"131077@3", "2.5@3"} {
		v, err := ParseVersion(s)
		if err != nil || FormatVersion(v) != "131077@3" || v.String() != "2.5@3" {
			t.Errorf("%s: got %v, %v", s, v, err)
		}
	}
	for _, s := range []string{"", "@", "1", "1@", "@1", "1.@2", "a@1", "1@x", "1.70000@2", "1@4294967296", "-1@2",
		"281474976710656.0@1"} {
		if v, err := ParseVersion(s); err == nil {
			t.Errorf("%q was read as %v", s, v)
		}
	}
}

func TestRecorderCollectsFromManyGoroutines(t *testing.T) {
	var r Recorder
	var wg sync.WaitGroup
	for p := range 8 {
		wg.Go(func() {
			for i := range 100 {
				r.Add(Op{Session: string(rune('a' + p)), Kind: Get, Key: "k", Missing: true, OK: true, Start: int64(i),
					End: int64(i)})
			}
		})
	}
	wg.Wait()
	if report := Check(r.History(), Options{}); !report.OK() || report.Stats.Gets != 800 {
		t.Fatal(report)
	}
	r.Reset()
	if len(r.History()) != 0 {
		t.Fatal("still something there")
	}
}
