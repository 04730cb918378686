package load

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/lab/ports"
)

// drive runs a load that records, and returns what it recorded.
func drive(t *testing.T, c Config) (Result, history.History, history.Report) {
	t.Helper()
	var out bytes.Buffer
	c.Record = &out
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := Run(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	h, err := history.ReadAll(&out)
	if err != nil {
		t.Fatal(err)
	}
	report := history.Check(h, history.Options{AddsUp: true})
	t.Logf("%s%v", result.String(), report)
	return result, h, report
}

func latencies(r *Result) (n int64) {
	for _, h := range r.Latency {
		n += h.TotalCount()
	}
	return n
}

func mixed(endpoints ...Endpoint) Config {
	return Config{Endpoints: endpoints, Sessions: 6, Ops: 3000, Keys: 50, Theta: 0.99, ReadRatio: 0.4, MGetRatio: 0.1,
		DeleteRatio:     0.1,
		PrivateKeyShare: 0.1, ValueBytes: 100, Seed: 7, FinalReads: true, FinalTimeout: time.Second}
}

func TestRunRecordsEveryOperationOnceWithItsVersion(t *testing.T) {
	store := newFakeStore()
	a := startFake(t, &fakeServer{store: store, causal: true})
	b := startFake(t, &fakeServer{store: store, causal: true})
	c := mixed(Endpoint{Name: "eu", Addr: a}, Endpoint{Name: "us", Addr: b})
	c.CaptureVersions = true
	result, h, report := drive(t, c)
	if !report.OK() {
		t.Fatal(report)
	}
	if result.Ops != 3000 || result.Failed+result.Unknown != 0 || len(h) != 3000+2*result.Final.Keys {
		t.Errorf("%d operations succeeded, %d lines", result.Ops, len(h))
	}
	if n := latencies(&result); n != 3000 {
		t.Errorf("%d latencies", n)
	}
	if !maps.Equal(result.Sources, map[string]int64{"cache": 3000}) ||
		!maps.Equal(result.Statuses, map[string]int64{"stable": 3000}) {
		t.Errorf("sources %v, states %v", result.Sources, result.Statuses)
	}
	s := report.Stats
	if s.Sessions != 6+2 || s.Versioned != s.Puts+s.Deletes || s.FinalReads != 2*result.Final.Keys ||
		!result.Final.Settled() || result.Final.Undrained != 0 {
		t.Errorf("%+v %+v", s, *result.Final)
	}
	dcs := map[string]int{}
	for _, op := range h {
		dcs[op.DC]++
		if strings.Contains(op.Value, ".") {
			t.Fatalf("padding in the history: %q", op.Value)
		}
	}
	if dcs["eu"] < 1000 || dcs["us"] < 1000 {
		t.Errorf("operations by data center: %v", dcs)
	}
	for _, v := range store.values {
		if !v.deleted && len(v.value) != 100 {
			t.Fatalf("a value of %d bytes", len(v.value))
		}
	}
}

func TestRunStopsSendingCausalToAnEndpointThatDoesNotKnowIt(t *testing.T) {
	var asked atomic.Int64
	addr := startFake(t, &fakeServer{intercept: func(_ int, args []string) (string, bool) {
		if strings.EqualFold(args[0], "CAUSAL") && args[1] == "LAST" {
			asked.Add(1)
		}
		return "", false
	}})
	c := mixed(Endpoint{Name: "eu", Addr: addr})
	c.CaptureVersions, c.Protocol = true, 2
	result, _, report := drive(t, c)
	if !report.OK() || result.Ops != 3000 || len(result.Errors) != 0 || report.Stats.Versioned != 0 {
		t.Errorf("errors %v; %v", result.Errors, report)
	}
	if n := asked.Load(); n == 0 || n > 6 {
		t.Errorf("asked %d times", n)
	}
	if result.Final.Undrained != 6 {
		t.Errorf("%d sessions undrained", result.Final.Undrained)
	}
}

func TestPipelinesAreRecordedInCommandOrder(t *testing.T) {
	addr := startFake(t, &fakeServer{causal: true})
	c := mixed(Endpoint{Name: "eu", Addr: addr})
	c.Pipeline, c.CaptureVersions, c.Keys, c.MGetKeys = 16, true, 3, 3
	result, _, report := drive(t, c)
	if !report.OK() || result.Ops != 3000 {
		t.Fatal(report)
	}
}

func TestConnectionsToOneEndpointCanBeOneSession(t *testing.T) {
	store := newFakeStore()
	a, b := startFake(t, &fakeServer{store: store}), startFake(t, &fakeServer{store: store})
	c := mixed(Endpoint{Name: "eu", Addr: a}, Endpoint{Name: "us", Addr: b})
	c.SessionNaming, c.Sessions, c.ConnectionsPerSession = ByEndpoint, 2, 4
	_, _, report := drive(t, c)
	if !report.OK() || report.Stats.Sessions != 2+2 || report.Stats.Processes < 8+2 {
		t.Fatalf("%+v %v", report.Stats, report)
	}
}

func TestErrorsAreClassifiedByWhetherTheOperationHadAnEffect(t *testing.T) {
	var n atomic.Int64
	addr := startFake(t, &fakeServer{causal: true, intercept: func(_ int, args []string) (string, bool) {
		if args[0] == "set" || args[0] == "get" {
			return []string{"", "-BUSY log is full\r\n", "-UNKNOWN may have happened\r\n", "-UNAVAILABLE ring eu\r\n",
				"-ERR something\r\n", ""}[n.Add(1)%6], false
		}
		return "", false
	}})
	c := mixed(Endpoint{Name: "eu", Addr: addr})
	c.CaptureVersions, c.FinalReads = true, false
	result, h, report := drive(t, c)
	if !report.OK() {
		t.Fatal(report)
	}
	for _, code := range []string{"BUSY", "UNKNOWN", "UNAVAILABLE", "ERR"} {
		if result.Errors[code] < 100 {
			t.Errorf("errors: %v", result.Errors)
		}
	}
	failed, unknown := 0, 0
	for _, op := range h {
		switch {
		case op.Unknown:
			unknown++
		case !op.OK:
			failed++
		}
		if !op.OK && !op.Version.IsZero() {
			t.Fatalf("a version for %v", op.String())
		}
	}
	if int64(failed) != result.Failed || int64(unknown) != result.Unknown || unknown == 0 || failed == 0 {
		t.Errorf("%d failed, %d unknown in the history; %+v", failed, unknown, result)
	}
}

func TestLostConnectionStartsANewSessionAndLeavesItsWriteUnknown(t *testing.T) {
	var n atomic.Int64
	store := newFakeStore()
	server := &fakeServer{store: store, causal: true}
	server.intercept = func(_ int, args []string) (string, bool) {
		switch c := n.Add(1); {
		case c%200 == 0:
			return "", true // not executed, not answered
		case c%200 == 100 && args[0] == "set":
			ignored := ""
			server.execute(args, &ignored)
			return "", true // executed, not answered
		}
		return "", false
	}
	addr := startFake(t, server)
	c := mixed(Endpoint{Name: "eu", Addr: addr})
	c.CaptureVersions = true
	result, _, report := drive(t, c)
	if !report.OK() {
		t.Fatal(report)
	}
	if result.Reconnects < 10 || result.Errors["connection"] < 10 || result.Unknown == 0 {
		t.Errorf("%+v", result)
	}
	if s := report.Stats; s.Sessions < 6+int(result.Reconnects)/2 {
		t.Errorf("%d reconnects, but only %d sessions", result.Reconnects, s.Sessions)
	}
}

func TestTimeoutsLeaveOutcomesUnknown(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	addr := startFake(t, &fakeServer{intercept: func(_ int, args []string) (string, bool) {
		if args[0] == "set" {
			<-stop
		}
		return "", false
	}})
	c := Config{Endpoints: []Endpoint{{Name: "eu", Addr: addr}}, Ops: 2, Timeout: 200 * time.Millisecond}
	result, _, report := drive(t, c)
	if !report.OK() || result.Unknown != 2 || result.Errors["timeout"] != 2 {
		t.Errorf("%+v %v", result, report)
	}
}

func TestUnreachableEndpointFailsOperationsWithCertainty(t *testing.T) {
	addr := ports.ForTest(t)
	result, _, report := drive(t, Config{Endpoints: []Endpoint{{Name: "eu", Addr: addr}}, Ops: 3})
	if !report.OK() || result.Failed != 3 || result.Unknown != 0 || result.Errors["connect"] != 3 ||
		result.Reconnects != 0 {
		t.Errorf("%+v %v", result, report)
	}
}

func TestFinalReadsReportEndpointsThatNeverAgree(t *testing.T) {
	a := startFake(t, &fakeServer{causal: true})
	b := startFake(t, &fakeServer{causal: true}) // a store of its own: nothing is replicated
	c := mixed(Endpoint{Name: "eu", Addr: a}, Endpoint{Name: "us", Addr: b})
	c.FinalTimeout = 300 * time.Millisecond
	result, _, report := drive(t, c)
	if result.Final.Disagree == 0 || result.Final.Settled() || result.Final.Rounds < 2 {
		t.Errorf("%+v", *result.Final)
	}
	if !report.Has(history.Diverged) || !report.Has(history.LostWrite) {
		t.Error(report)
	}
}

func TestFinalReadsWaitForAcknowledgedVersions(t *testing.T) {
	var asked atomic.Int64
	addr := startFake(t, &fakeServer{causal: true, intercept: func(connection int, args []string) (string, bool) {
		if connection == 1 {
			return "", false
		}
		switch { // the endpoint is behind for three rounds: it knows the first write only
		case args[0] == "get" && asked.Add(1) <= 3:
			return bulk("s0-1"), false
		case args[0] == "CAUSAL" && asked.Load() <= 3:
			return "*3\r\n" + bulk("1@1") + bulk("cache") + bulk("stable"), false
		}
		return "", false
	}})
	result, h, report := drive(t, Config{Endpoints: []Endpoint{{Name: "eu", Addr: addr}}, Ops: 50, Keys: 1,
		CaptureVersions: true,
		FinalReads:      true})
	if !result.Final.Settled() || result.Final.Rounds != 4 || !report.OK() {
		t.Errorf("%+v %v", *result.Final, report)
	}
	if last := h[len(h)-1]; len(h) != 51 || !last.Final || last.Value != "s0-50" || last.Version.HLC != 50 {
		t.Errorf("recorded %v", last.String())
	}
}

// At a cut that lies before its first write a key is missing, and an answer that nothing is there has no version.
func TestFinalReadsWaitForKeysThatCannotBeMissing(t *testing.T) {
	var asked atomic.Int64
	addr := startFake(t, &fakeServer{causal: true, intercept: func(connection int, args []string) (string, bool) {
		if connection == 1 {
			return "", false
		}
		switch {
		case args[0] == "get" && asked.Add(1) <= 3:
			return "$-1\r\n", false
		case args[0] == "CAUSAL" && asked.Load() <= 3:
			return "*3\r\n" + bulk("") + bulk("cache") + bulk("stable"), false
		}
		return "", false
	}})
	result, h, report := drive(t, Config{Endpoints: []Endpoint{{Name: "eu", Addr: addr}}, Ops: 50, Keys: 1,
		CaptureVersions: true,
		FinalReads:      true})
	if !result.Final.Settled() || result.Final.Rounds != 4 || !report.OK() {
		t.Errorf("%+v %v", *result.Final, report)
	}
	if last := h[len(h)-1]; !last.Final || last.Value != "s0-50" {
		t.Errorf("recorded %v", last.String())
	}
}

func TestRunEndsAfterItsDuration(t *testing.T) {
	addr := startFake(t, &fakeServer{})
	began := time.Now()
	result, err := Run(t.Context(), Config{Endpoints: []Endpoint{{Name: "eu", Addr: addr}},
		Duration: 100 * time.Millisecond,
		Sessions: 3})
	if err != nil || result.Ops == 0 || time.Since(began) > 10*time.Second {
		t.Fatalf("%v %+v", err, result)
	}
}

func TestInterruptedRunIsStillChecked(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var asked atomic.Int64
	addr := startFake(t, &fakeServer{causal: true, intercept: func(int, []string) (string, bool) {
		if asked.Add(1) == 500 {
			interrupt()
		}
		return "", false
	}})
	var out bytes.Buffer
	c := mixed(Endpoint{Name: "eu", Addr: addr})
	c.Ops, c.CaptureVersions, c.Record = 1e9, true, &out
	result, err := Run(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if result.Ops == 0 || result.Final == nil || result.Final.Keys == 0 || !result.Final.Settled() ||
		result.Final.Undrained != 0 {
		t.Errorf("%+v, final reads %+v", result, result.Final)
	}
	h, err := history.ReadAll(&out)
	if err != nil {
		t.Fatal(err)
	}
	if report := history.Check(h, history.Options{AddsUp: true}); !report.OK() || report.Stats.FinalReads != result.Final.Keys {
		t.Error(report)
	}
}

func TestRunStopsIfTheHistoryCannotBeWritten(t *testing.T) {
	addr := startFake(t, &fakeServer{})
	_, err := Run(t.Context(), Config{Endpoints: []Endpoint{{Name: "eu", Addr: addr}}, Sessions: 3, Ops: 1e9,
		Record: fullDisk{}})
	if !errors.Is(err, errFull) {
		t.Fatalf("got %v", err)
	}
}

type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestInvalidConfigIsRefusedWithAllItsErrors(t *testing.T) {
	_, err := Run(t.Context(), Config{
		Endpoints:   []Endpoint{{Addr: "x"}, {Name: "a", Addr: "b"}, {Name: "a", Addr: "c"}},
		ReadRatio:   0.7,
		DeleteRatio: 0.7,
		Theta:       1, Protocol: 4, SessionNaming: "pod", MGetKeys: 2000, Keys: 10})
	for _, want := range []string{"give a name and an address", "given twice", "sum of the read", "theta 1", "RESP4",
		`naming "pod"`, "2000 keys", "the run is not bounded"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q missing in: %v", want, err)
		}
	}
}

func TestRealRedisIsCausal(t *testing.T) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not in PATH; install it with: apt-get install redis-server")
	}
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := socket.Addr().String()
	socket.Close()
	_, port, _ := net.SplitHostPort(addr)
	server := exec.Command(path, "--port", port, "--save", "", "--appendonly", "no", "--dir",
		filepath.Clean(t.TempDir()))
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	for deadline := time.Now().Add(10 * time.Second); client.Ping(t.Context()).Err() != nil; {
		if time.Now().After(deadline) {
			t.Fatal("redis-server did not come up")
		}
	}
	for _, protocol := range []int{2, 3} {
		c := mixed(Endpoint{Name: "a", Addr: addr}, Endpoint{Name: "b", Addr: addr})
		c.CaptureVersions, c.Protocol, c.Ops, c.Pipeline = true, protocol, 20000, 4
		result, h, report := drive(t, c)
		if !report.OK() || result.Ops != c.Ops || len(result.Errors) != 0 {
			t.Fatalf("RESP%d: %v %v", protocol, result.Errors, report)
		}
		if !slices.ContainsFunc(h, func(op history.Op) bool {
			return op.Kind == history.MGet && !op.Reads[0].Missing
		}) {
			t.Error("no mget found anything")
		}
	}
}
