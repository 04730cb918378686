package load

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/causalstore/causalstore/history"
)

// shared is a load of shared keys through two endpoints in each of two data centers.
func shared(addrs ...string) Config {
	c := Config{Promise: DataCenter, Sessions: 8, Ops: 6000, CaptureVersions: true, FinalReads: true, Seed: 5}
	for i, addr := range addrs {
		c.Endpoints = append(c.Endpoints, Endpoint{Name: strings.Repeat("e", i+1), Addr: addr,
			DataCenter: []string{"eu", "us"}[i/2]})
	}
	return c
}

// driveShared runs a load of shared keys, and returns what it has seen and what the judge says.
func driveShared(t *testing.T, c Config) (Result, history.DataCenterReport) {
	t.Helper()
	result, h, report := drive(t, c)
	if !report.OK() {
		t.Error(report)
	}
	inside, err := history.CheckDataCenters(h, history.DataCenterOptions{MaxViolations: 3, AddsUp: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(inside.String())
	return result, inside
}

func TestSharedKeysOfOneStorePassAsOneRedis(t *testing.T) {
	store := newFakeStore()
	var addrs []string
	for range 4 {
		addrs = append(addrs, startFake(t, &fakeServer{store: store, causal: true}))
	}
	for _, pipeline := range []int{1, 4} {
		c := shared(addrs...)
		c.Pipeline = pipeline
		result, inside := driveShared(t, c)
		is := result.Inside
		// What finds nothing before the first write has no version to be judged by.
		if !inside.OK() || inside.DataCenters != 2 || inside.Visibility.NotJudged > inside.Operations/50 ||
			inside.Exact.Judged < int(c.Ops) {
			t.Error(inside.String())
		}
		if is.Pairs < 50 || is.OldPairs+is.FailedPairs != 0 || is.Added < 200 || is.Counted != is.Added ||
			is.AddedUnknown+is.Unread != 0 {
			t.Errorf("%+v", *is)
		}
		for _, v := range []Verb{Get, MGet, Set, Add, Incr, Del, Update} {
			if result.Latency[v] == nil {
				t.Errorf("no %s", v)
			}
		}
	}
}

func TestUpdatesOfUnknownOutcomePassIfTheyHappenedOnceOrNever(t *testing.T) {
	store := newFakeStore()
	var asked atomic.Int64
	var addrs []string
	for range 4 {
		s := &fakeServer{store: store, causal: true}
		s.intercept = func(_ int, args []string) (string, bool) {
			if name := strings.ToUpper(args[0]); name == "CAUSAL" || name == "GET" || name == "MGET" {
				return "", false // the last values are read, too
			}
			if asked.Add(1)%150 != 0 {
				return "", false
			}
			if asked.Load()%300 == 0 {
				s.execute(args, new(string))
			}
			return "", true // no reply
		}
		addrs = append(addrs, startFake(t, s))
	}
	result, inside := driveShared(t, shared(addrs...))
	if result.Unknown < 5 || !inside.OK() {
		t.Errorf("%d of unknown outcome", result.Unknown)
	}
	if is := result.Inside; is.Counted < is.Added || is.Counted > is.Added+is.AddedUnknown {
		t.Errorf("%+v", *is)
	}
}

func TestTwoStoresInOneDataCenterAreFound(t *testing.T) {
	var addrs []string
	for range 2 {
		addrs = append(addrs, startFake(t, &fakeServer{causal: true}))
	}
	c := shared(addrs...)
	c.FinalTimeout = 1
	result, h, _ := drive(t, c)
	inside, err := history.CheckDataCenters(h, history.DataCenterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if inside.OK() || inside.Visibility.Total < 100 || inside.Exact.Total < inside.Exact.Keys/2 {
		t.Error(inside.String())
	}
	if is := result.Inside; is.Pairs < 50 || is.OldPairs != is.Pairs || is.Counted >= is.Added {
		t.Errorf("%+v", *is)
	}
}

func TestSharedKeysHaveNoOtherMix(t *testing.T) {
	w, err := NewWorkload("ycsb-a")
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]Config{
		"leave out the workload": {Promise: DataCenter, Workload: w},
		`promise "linear"`:       {Promise: "linear"},
	} {
		c.Endpoints, c.Ops = []Endpoint{{Name: "eu", Addr: "127.0.0.1:1"}}, 1
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
