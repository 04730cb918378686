package canary_test

import (
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/lab/canary"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/topology"
)

func one(name string) topology.DataCenter {
	return topology.DataCenter{Name: name, Coordinators: 1, Shards: 1, Caches: 1}
}

func TestCanariesOfTwoDataCentersMakeOneCausalHistoryAndDeleteTheirKeys(t *testing.T) {
	topo, err := topology.New(1, []topology.DataCenter{one("a"), one("b")},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}, {Name: "s", DCs: []topology.DC{1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := local.Start(t.Context(), local.Options{Topology: topo, Engine: "embedded", DataDir: t.TempDir(),
		Host: "127.0.0.1", Cache: true, Scope: "connection"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	config := canary.Config{Prefix: "p", Secret: []byte("s"), Sessions: 2, Keys: 4, Rate: 100, Timeout: 5 * time.Second,
		TTL: time.Hour}
	var all []*canary.Canary
	for _, e := range d.Endpoints() {
		config.DataCenter, config.Addr = e.Name, e.RESP
		c, err := canary.Start(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	if _, err := all[0].ReadFinally(1); err == nil {
		t.Error("final reads were made while sessions wrote")
	}
	enough := func(c *canary.Canary) bool {
		r := c.Report(canary.Position{})
		return strings.Count(r.History, "\n") > 50 && len(r.Samples) > 0
	}
	for deadline := time.Now().Add(30 * time.Second); !enough(all[0]) ||
		!enough(all[1]); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("too little after 30 s: %+v", all[0].Report(canary.Position{}))
		}
	}
	client := redis.NewClient(&redis.Options{Addr: config.Addr})
	defer client.Close()
	text := ""
	for _, c := range all {
		c.Stop()
		first := c.Report(canary.Position{})
		text += first.History
		if again := c.Report(first.Next); again.History != "" || len(again.Samples) > 0 || !again.Stopped {
			t.Errorf("after everything was fetched, there is more: %+v", again)
		}
	}
	check := func() history.Report {
		final := ""
		for _, c := range all {
			lines, err := c.ReadFinally(1)
			if err != nil {
				t.Fatal(err)
			}
			final += lines
		}
		h, err := history.ReadAll(strings.NewReader(text + final))
		if err != nil {
			t.Fatal(err)
		}
		return history.Check(h, history.Options{})
	}
	var report history.Report
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		// writes may be on their way
		if report = check(); report.OK() || time.Now().After(deadline) {
			break
		}
	}
	if !report.OK() || report.Stats.Sessions < 6 || report.Stats.FinalReads != 8 {
		t.Errorf("%s\n%+v", report, report.Stats)
	}

	// Somebody else writes to a key of the run.
	if err := client.Set(t.Context(), "p:0", "b/s1#1-7.0011223344556677", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := all[1].ReadFinally(2); err != nil {
		t.Fatal(err)
	}
	samples := all[1].Report(canary.Position{}).Samples
	if last := samples[len(samples)-1]; last.Kind != canary.Forged || !strings.Contains(last.Text, "p:0=") {
		t.Errorf("a foreign value was taken for one of a canary: %+v", last)
	}
	if err := all[1].Delete(); err != nil {
		t.Fatal(err)
	}
	if keys, err := client.Exists(t.Context(), "p:0", "p:1", "p:2", "p:3").Result(); err != nil || keys != 0 {
		t.Errorf("%d keys are left (%v)", keys, err)
	}
}

func TestACanaryRefusesWhatItsBoundsForbidAndServesOnlyWhoKnowsTheToken(t *testing.T) {
	good := canary.Config{DataCenter: "a", Addr: "127.0.0.1:1", Prefix: "p", Secret: []byte("s"), Sessions: 1, Keys: 1,
		Rate: 1, Timeout: time.Second, TTL: time.Hour}
	for what, spoil := range map[string]func(*canary.Config){
		"sessions": func(c *canary.Config) { c.Sessions = 9 }, "keys": func(c *canary.Config) {
			c.Keys = 257
		}, "operations per second": func(c *canary.Config) { c.Rate = 101 },
		"address": func(c *canary.Config) { c.Addr = "x" }, "secret": func(c *canary.Config) {
			c.Secret = nil
		}, "time to live": func(c *canary.Config) { c.TTL = time.Second },
	} {
		bad := good
		spoil(&bad)
		if _, err := canary.Start(t.Context(), bad); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	c, err := canary.Start(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	c.Stop()
	s := httptest.NewServer(c.Handler("token"))
	defer s.Close()
	for path, want := range map[string]int{"/readyz": http.StatusOK, "/token/report": http.StatusOK,
		"/nekot/report": http.StatusNotFound, "/report": http.StatusNotFound} {
		r, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, r.StatusCode, want)
		}
	}
}

func TestConnectionsOfOneSessionShareItUntilOneIsMadeAnew(t *testing.T) {
	topo, err := topology.New(1, []topology.DataCenter{one("a")}, []topology.Ring{{Name: "r", DCs: []topology.DC{0}}},
		nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := local.Start(t.Context(), local.Options{Topology: topo, Engine: "embedded", DataDir: t.TempDir(),
		Host: "127.0.0.1", Cache: true, Scope: "pod"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	config := canary.Config{DataCenter: "a", Name: "a/sidecar", Addr: d.Endpoints()[0].RESP, OneSession: true,
		Prefix: "p", Secret: []byte("s"), Sessions: 4, Keys: 2, Rate: 100, Timeout: 5 * time.Second, TTL: time.Hour}
	c, err := canary.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	read := func() history.History {
		h, err := history.ReadAll(strings.NewReader(c.Report(canary.Position{}).History))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	processes := func(h history.History) map[string]map[string]bool {
		by := map[string]map[string]bool{}
		for _, op := range h {
			if by[op.Session] == nil {
				by[op.Session] = map[string]bool{}
			}
			by[op.Session][op.Process] = true
		}
		return by
	}
	shared := func() bool { // all five connections are in the last generation
		return slices.ContainsFunc(slices.Collect(maps.Values(processes(read()))), func(p map[string]bool) bool {
			return len(p) == 5
		})
	}
	for deadline := time.Now().Add(30 * time.Second); !shared(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no session has all connections after 30 s: %v", processes(read()))
		}
	}
	c.Stop()
	h := read()
	if r := history.Check(h, history.Options{}); !r.OK() {
		t.Errorf("%s", r)
	}
	r := c.Report(canary.Position{})
	for _, op := range h {
		if w, ok := canary.WriterOf(op.Value); op.Kind == history.Put &&
			(!ok || w.Incarnation != r.Next.Incarnation || w.Process != op.Process) {
			t.Fatalf("%q was written by %+v, of %s", op.Value, w, r.Next.Incarnation)
		}
	}
	if again := c.Report(canary.Position{Incarnation: "a/sidecar/else", Bytes: r.Next.Bytes,
		Samples: r.Next.Samples}); again.History != r.History {
		t.Error("a position of another canary was taken for one of this")
	}
	if again := c.Report(canary.Position{Bytes: r.Next.Bytes}); again.History != "" {
		t.Error("a position of a program that knows no incarnations was ignored")
	}
	if _, ok := canary.WriterOf("hello"); ok {
		t.Error("a foreign value has a writer")
	}
}

// TestOperationsOfACanaryWhoseSidecarDoesNotAnswerFail: its sidecar starts more slowly than itself.
func TestOperationsOfACanaryWhoseSidecarDoesNotAnswerFail(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c, err := canary.Start(t.Context(), canary.Config{DataCenter: "a", Addr: l.Addr().String(), OneSession: true,
		Prefix: "p", Secret: []byte("s"), Sessions: 4, Keys: 1, Rate: 100, Timeout: 5 * time.Second, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	puts := func() int { return strings.Count(c.Report(canary.Position{}).History, `"op":"put"`) }
	for deadline := time.Now().Add(30 * time.Second); puts() < 5; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d writes after 30 s", puts())
		}
	}
	c.Stop()
	r := c.Report(canary.Position{})
	h, err := history.ReadAll(strings.NewReader(r.History))
	if err != nil {
		t.Fatal(err)
	}
	if check := history.Check(h, history.Options{}); !check.OK() || check.Stats.Failed != len(h) ||
		r.Errors["connect"] != len(h) {
		t.Errorf("%s; %+v, errors %v", check, check.Stats, r.Errors)
	}
}
