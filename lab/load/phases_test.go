package load

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/history"
)

// stalled runs an open loop of 2000 operations at 1000 a second over one connection, against a server that answers in
// no time but for the 100th command, which takes a second, on a clock of its own.
func stalled(t *testing.T, c Config) Result {
	t.Helper()
	clock := &manual{}
	var gets atomic.Int64
	c.Endpoints = []Endpoint{{Name: "eu"}}
	c.Endpoints[0].Addr = startFake(t, &fakeServer{intercept: func(_ int, args []string) (string, bool) {
		if args[0] == "get" && gets.Add(1) == 100 {
			clock.advance(time.Second)
		}
		return "", false
	}})
	c.ReadRatio = 1
	config, err := c.withDefaults(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	result, err := newRun(config, clock).all(t.Context())
	if err != nil || result.Ops != c.Ops {
		t.Fatalf("%v\n%s", err, result.String())
	}
	return result
}

// slower counts the operations with a latency of at least d.
func slower(r *Result, d time.Duration) (n int64) {
	for _, bar := range r.Latency[Get].Distribution() {
		if bar.From >= d.Microseconds() {
			n += bar.Count
		}
	}
	return n
}

func TestOpenLoopChargesAStallToAllOperationsDueDuringIt(t *testing.T) {
	for _, pipeline := range []int{1, 8} {
		result := stalled(t, Config{Rate: 1000, Ops: 2000, Pipeline: pipeline})
		// Operation 100 waits for a second, the next one a millisecond less, and so on.
		for _, ms := range []int64{1, 100, 500, 900} {
			want, got := 1001-ms, slower(&result, time.Duration(ms)*time.Millisecond)
			if got < want-2 || got > want+2 { // the histogram keeps three digits
				t.Errorf("pipeline %d: %d operations of at least %d ms, wanted %d", pipeline, got, ms, want)
			}
		}
	}
}

func TestClosedLoopSeesAStallOnce(t *testing.T) {
	result := stalled(t, Config{Ops: 2000})
	if n := slower(&result, time.Millisecond); n != 1 {
		t.Errorf("%d slow operations", n)
	}
}

func TestSeriesHasALineForEverySecond(t *testing.T) {
	var out bytes.Buffer
	stalled(t, Config{Rate: 1000, Ops: 2000, Series: &out})
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	// The stall ends at 1.099 s, in the second second.
	var ops []string
	for i, row := range rows[1:] {
		if row[0] != fmt.Sprint(i) {
			t.Errorf("row %v", row)
		}
		ops = append(ops, row[1])
	}
	if strings.Join(rows[0], ",") != "second,ops,failed,unknown,p50_ms,p99_ms,max_ms" ||
		strings.Join(ops, " ") != "99 1901" {
		t.Errorf("%v", rows)
	}
}

func TestSeriesCountsSecondsFromTheStartWithoutGaps(t *testing.T) {
	var out bytes.Buffer
	s := newSeries(&out, time.Minute)
	s.take(time.Minute+1, succeeded, 2*time.Millisecond)
	s.take(time.Minute+time.Second-1, unknown, time.Hour)
	s.take(time.Minute+3*time.Second, failed, time.Hour)
	s.take(time.Minute+2*time.Second, succeeded, time.Millisecond) // reported late
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	want := "second,ops,failed,unknown,p50_ms,p99_ms,max_ms\n0,1,0,1,2.000,2.000,2.000\n1,0,0,0,0.000,0.000,0.000\n2,0,0,0,0.000,0.000,0.000\n" +
		"3,1,1,0,1.000,1.000,1.000\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestResultCountsOperationsThatWereDueButNotSent(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	addr := startFake(t, &fakeServer{intercept: func(_ int, args []string) (string, bool) {
		if args[0] == "get" {
			<-stop
		}
		return "", false
	}})
	c := Config{Endpoints: []Endpoint{{Name: "eu", Addr: addr}}, Rate: 1000, Duration: 400 * time.Millisecond,
		Timeout: 500 * time.Millisecond, ReadRatio: 1}
	result, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if total := result.Unsent + result.Ops + result.Failed + result.Unknown; total < 400 || total > 401 ||
		result.Unsent < 300 {
		t.Errorf("of 400 operations, %d were sent and %d were not", total-result.Unsent, result.Unsent)
	}
}

func TestPreloadWritesAllKeysEvenIfTheServerIsBusyAtFirst(t *testing.T) {
	var sets atomic.Int64
	server := &fakeServer{intercept: func(_ int, args []string) (string, bool) {
		if args[0] == "set" && sets.Add(1) <= 50 {
			return "-BUSY log is full\r\n", false
		}
		return "", false
	}}
	addr := startFake(t, server)
	w := &Workload{Operations: map[string]float64{"get": 1}}
	result, err := Run(t.Context(), Config{Endpoints: []Endpoint{{Name: "eu", Addr: addr}}, Workload: w, Keys: 333,
		Sessions: 4, Ops: 100})
	if err != nil {
		t.Fatal(err)
	}
	if len(server.store.values) != 333 || result.Preload.Keys != 333 || result.Misses != 0 || len(result.Errors) != 0 ||
		result.Latency[Set] != nil {
		t.Errorf("%d keys; %s", len(server.store.values), result.String())
	}
}

func TestPreloadGivesUpOnAServerThatRefusesWrites(t *testing.T) {
	addr := startFake(t, &fakeServer{intercept: func(_ int, args []string) (string, bool) {
		if args[0] == "set" {
			return "-READONLY You can't write against a read only replica.\r\n", false
		}
		return "", false
	}})
	w := &Workload{Operations: map[string]float64{"get": 1}}
	c, err := Config{Endpoints: []Endpoint{{Name: "eu", Addr: addr}}, Workload: w, Keys: 3,
		Ops: 100}.withDefaults(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	_, err = newRun(c, &manual{}).all(t.Context())
	if err == nil || !strings.Contains(err.Error(), "eu accepts no writes: [READONLY]") {
		t.Errorf("%v", err)
	}
}

func TestPreloadWritesTheRequestedNumberOfKeys(t *testing.T) {
	for loadKeys, want := range map[int]int{0: 50, 20: 20, -1: 0} {
		server := &fakeServer{}
		addr := startFake(t, server)
		w := &Workload{Operations: map[string]float64{"get": 1}}
		result, err := Run(t.Context(), Config{Endpoints: []Endpoint{{Name: "eu", Addr: addr}}, Workload: w, Keys: 50,
			LoadKeys: loadKeys, Ops: 1000})
		if err != nil || len(server.store.values) != want {
			t.Errorf("%d asked for: %d keys, %v", loadKeys, len(server.store.values), err)
		}
		if (result.Misses == 0) != (want == 50) {
			t.Errorf("%d of %d keys written, %d of %d reads found nothing", want, 50, result.Misses, result.Reads)
		}
	}
}

func TestHistoryOfReadModifyWritesPassesTheCheck(t *testing.T) {
	store := newFakeStore()
	a, b := startFake(t, &fakeServer{store: store, causal: true}), startFake(t, &fakeServer{store: store, causal: true})
	w := &Workload{Operations: map[string]float64{"get": 0.3, "mget": 0.1, "set": 0.1, "insert": 0.1, "rmw": 0.3,
		"del": 0.1},
		Keys: Keys{Count: 30, Distribution: Scrambled}, MGet: MGetKeys{Min: 1, Max: 5}, Values: Values{Bytes: 40}}
	c := Config{Endpoints: []Endpoint{{Name: "eu", Addr: a}, {Name: "us", Addr: b}}, Workload: w, Sessions: 4,
		Ops: 3000, Pipeline: 5, Seed: 3,
		FinalReads:      true,
		CaptureVersions: true}
	result, h, report := drive(t, c)
	rmws := result.Latency[ReadModifyWrite].TotalCount()
	if !report.OK() || result.Ops != 3000 || int64(len(h)) != 30+3000+rmws+2*int64(result.Final.Keys) {
		t.Errorf("%d lines; %s%v", len(h), result.String(), report)
	}
	if s := report.Stats; s.Versioned != s.Puts+s.Deletes || result.Unknown+result.Failed != 0 {
		t.Errorf("%+v", s)
	}
	for _, v := range store.values {
		if !v.deleted && len(v.value) != 40 {
			t.Fatalf("a value of %d bytes", len(v.value))
		}
	}
}

func TestReadModifyWriteDoesNotWriteAfterAFailedRead(t *testing.T) {
	var gets, sets atomic.Int64
	addr := startFake(t, &fakeServer{intercept: func(_ int, args []string) (string, bool) {
		switch args[0] {
		case "set":
			return "", sets.Add(1)%20 == 0
		case "get":
			switch gets.Add(1) % 10 {
			case 5:
				return "-UNAVAILABLE ring eu\r\n", false
			case 0:
				return "", true
			}
		}
		return "", false
	}})
	w := &Workload{Operations: map[string]float64{"rmw": 1}, Keys: Keys{Count: 10}}
	c := Config{Endpoints: []Endpoint{{Name: "eu", Addr: addr}}, Workload: w, Ops: 300, LoadKeys: -1, Pipeline: 2}
	result, h, report := drive(t, c)
	puts := int64(0)
	for _, op := range h {
		if op.Kind == history.Put {
			puts++
		}
	}
	sent := result.Ops + result.Unknown
	if !report.OK() || puts != sent || sets.Load() > sent || sets.Load() < result.Ops || result.Failed != 300-sent {
		t.Errorf("%d SETs, %d recorded; %s%v", sets.Load(), puts, result.String(), report)
	}
	if result.Errors["UNAVAILABLE"] == 0 || result.Errors["connection"] == 0 || result.Ops == 0 || result.Unknown == 0 {
		t.Errorf("%s", result.String())
	}
}

func TestConnectionThatTheClientDropsAfterAnErrorFailsItsOperations(t *testing.T) {
	addr := startFake(t, &fakeServer{intercept: func(_ int, args []string) (string, bool) {
		if args[0] == "set" {
			return "-READONLY You can't write against a read only replica.\r\n", false
		}
		return "", false
	}})
	result, _, report := drive(t, Config{Endpoints: []Endpoint{{Name: "eu", Addr: addr}}, Ops: 100})
	if !report.OK() || result.Failed != 100 || result.Errors["READONLY"] != 100 {
		t.Errorf("%s%v", result.String(), report)
	}
}

func TestResultJSONHasEveryVerb(t *testing.T) {
	var out bytes.Buffer
	result, err := Run(t.Context(), Config{Endpoints: []Endpoint{{Name: "eu", Addr: startFake(t, &fakeServer{})}},
		Workload: builtIn(t, "ycsb-f"), Keys: 10, Ops: 500})
	if err != nil || result.WriteJSON(&out) != nil {
		t.Fatal(err)
	}
	var got resultJSON
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if n := got.LatencyMicros["get"].Count + got.LatencyMicros["rmw"].Count; n != 500 || got.Workload != "ycsb-f" ||
		got.Ops != 500 ||
		got.PreloadedKeys != 10 || got.Keys != 10 || len(got.LatencyMicros) != 2 {
		t.Errorf("%s", out.String())
	}
}

func TestRunFailsIfTheSeriesCannotBeWritten(t *testing.T) {
	addr := startFake(t, &fakeServer{})
	_, err := Run(t.Context(), Config{Endpoints: []Endpoint{{Name: "eu", Addr: addr}}, Ops: 10, Series: fullDisk{}})
	if !errors.Is(err, errFull) {
		t.Fatalf("got %v", err)
	}
}
