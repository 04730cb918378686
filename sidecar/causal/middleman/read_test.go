package middleman

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestVersionIsInFlightUntilItIsKnownToBeComplete(t *testing.T) {
	for name, complete := range map[string]func(*rig){
		"SV has passed it": func(r *rig) { r.raiseSV(10) },
		"it is marked stable": func(r *rig) {
			r.step(causal.StableMarks{Versions: []causal.Version{version(10)}}.Message(coordinator, self))
		},
	} {
		r := newRig(t)
		key := r.key(self, 0)
		r.put(key, record(version(10)))
		if reply := r.mustGet(causal.Get{Key: key}); reply.Status != causal.InFlight ||
			reply.Record.Version != version(10) {
			t.Fatalf("read %v, %v; want the put, in flight", reply.Record.Version, reply.Status)
		}
		complete(r)
		if reply := r.mustGet(causal.Get{Key: key}); reply.Status != causal.Stable {
			t.Errorf("in flight after %s", name)
		}
	}
}

func TestCompletionOfOneWriteSaysNothingAboutAnotherWriteOfTheKey(t *testing.T) {
	ruleHolds(t, causal.StatusPerKey, func(r *rig) string {
		key := r.key(self, 0)
		r.put(key, record(version(10)))
		r.put(key, record(causal.Version{HLC: 5, Origin: 2})) // loses
		r.step(causal.StableMarks{Versions: []causal.Version{{HLC: 5, Origin: 2}}}.Message(coordinator1, self))
		if r.mustGet(causal.Get{Key: key}).Status == causal.Stable {
			return "an in-flight version was reported as stable"
		}
		return ""
	})
}

func TestVersionFromBeforeARestartIsInFlight(t *testing.T) {
	ruleHolds(t, causal.RestartStable, func(r *rig) string {
		key := r.key(self, 0)
		r.put(key, record(version(10)))
		r.restart()
		if r.mustGet(causal.Get{Key: key}).Status == causal.Stable {
			return "a version of which nothing is known was reported as stable"
		}
		return ""
	})
}

func TestVersionAndItsStatusAreReadInOneStep(t *testing.T) {
	ruleHolds(t, causal.StatusNotAtomic, func(r *rig) string {
		key := r.key(self, 0)
		r.put(key, record(version(10)))
		r.raiseSV(10)
		r.hold = isWrite
		r.put(key, record(version(20)))
		r.get(causal.Get{Key: key}) // behind the write
		id := r.lastID
		r.proceed()
		reply, ok := r.reply(id)
		if !ok {
			return "no reply"
		}
		if reply.Record.Version != version(20) || reply.Status != causal.InFlight {
			return "read " + reply.Record.Version.String() + " as " + reply.Status.String()
		}
		return ""
	})
}

func TestMissingKeyIsStableWithTheHorizonAsItsVersion(t *testing.T) {
	ruleHolds(t, causal.ForgetDropped, func(r *rig) string {
		reply := r.mustGet(causal.Get{Key: r.key(self, 0)})
		if !reply.Record.Value.Tombstone || reply.Status != causal.Stable {
			return "a missing key is not a stable tombstone"
		}
		if reply.Record.Version.HLC != 100 {
			return "its version is not the horizon"
		}
		return ""
	}, func(c *Config) { c.Horizon = 100 })
}

func TestForeignValueIsReadAsInFlightBelowEveryWrite(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	r.records[key], r.foreign[key] = causal.Record{Version: version(99), Value: causal.Value{Data: []byte("foreign")}},
		true
	for _, g := range []causal.Get{{Key: key}, {Key: key, Snapshot: true, Cut: 50}} {
		reply := r.mustGet(g)
		if reply.Status != causal.InFlight || !reply.Record.Version.IsZero() ||
			string(reply.Record.Value.Data) != "foreign" {
			t.Errorf("%+v: %+v, want the value, in flight, without a version", g, reply)
		}
	}
	r.put(key, record(version(10)))
	if got := r.mustGet(causal.Get{Key: key}); got.Record.Version != version(10) {
		t.Errorf("a put did not replace the foreign value: %+v", got)
	}
	if got := r.mustGet(causal.Get{Key: key, Cut: 5}); got.Err != causal.ErrCutTooOld {
		t.Errorf("a read below the put: %+v, want it refused", got)
	}
}

// Whoever writes past the store tells no middleman, so no copy of the value would ever be invalidated.
func TestAForeignValueThatIsFetchedAheadIsNotKept(t *testing.T) {
	r := newRig(t)
	r.openStream(cacheA, 1)
	key := r.key(self, 0)
	r.records[key], r.foreign[key] = causal.Record{Value: causal.Value{Data: []byte("foreign")}}, true
	for _, f := range []causal.Fill{{Key: key}, {Key: key, Snapshot: true, Ahead: true, Seen: 50}} {
		reply := r.fill(cacheA, f)
		if reply.Status != causal.InFlight || reply.Registered || string(reply.Record.Value.Data) != "foreign" {
			t.Errorf("%+v: %+v, want the value, in flight, and not registered", f, reply)
		}
	}
	if r.m.copies.cachedAt.live != 0 {
		t.Error("a copy is registered")
	}
}

func TestReadOfASlotOfAnotherShardIsRefusedWithTheMapInUse(t *testing.T) {
	ruleHolds(t, causal.ServeMoved, func(r *rig) string {
		reply := r.mustGet(causal.Get{Key: r.key(peer, 0)})
		if reply.Err != causal.ErrMoved || reply.Map != r.topo.Map(0) {
			return "the read was served: " + reply.Err.String()
		}
		return ""
	})
}

func TestStorageFailureIsReported(t *testing.T) {
	r := newRig(t)
	r.fail = func(StorageOp) bool { return true }
	if reply := r.mustGet(causal.Get{Key: r.key(self, 0)}); reply.Err != causal.ErrStorage {
		t.Errorf("got %v", reply.Err)
	}
}

func TestVersionAloneIsReturnedOnlyIfItIsTheKnownOne(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	r.put(key, record(version(10)))
	for known, want := range map[causal.HLC]string{10: "", 9: "v10"} {
		reply := r.mustGet(causal.Get{Key: key, VersionOnly: true, Known: version(known)})
		if string(reply.Record.Value.Data) != want || reply.VersionOnly != (want == "") {
			t.Errorf("the reader knows %d: %+v", known, reply)
		}
	}
}

func TestReadAtACutReturnsTheNewestVersionBelowItOrSaysThatItIsGone(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	r.records[key] = record(version(10))
	for _, hlc := range []causal.HLC{20, 30} {
		r.put(key, record(version(hlc)))
	}
	for _, c := range []struct {
		cut  causal.HLC
		want causal.HLC
		err  causal.ErrCode
	}{{30, 30, causal.OK}, {29, 20, causal.OK}, {20, 20, causal.OK}, {19, 10, causal.OK}, {9, 0, causal.ErrCutTooOld}} {
		if reply := r.mustGet(causal.Get{Key: key, Cut: c.cut}); reply.Err != c.err ||
			reply.Record.Version.HLC != c.want {
			t.Errorf("at %d: version %d, %v; want %d, %v", c.cut, reply.Record.Version.HLC, reply.Err, c.want, c.err)
		}
	}
}

func TestSnapshotReadReturnsTheNewestVersionAtOrBelowWhatTheReaderHasSeen(t *testing.T) {
	ruleHolds(t, causal.OlderThanSeen, func(r *rig) string {
		key := r.key(self, 0)
		for _, hlc := range []causal.HLC{10, 20, 30} {
			r.put(key, record(version(hlc)))
		}
		reply := r.mustGet(causal.Get{Key: key, Snapshot: true, Cut: 15})
		if reply.Record.Version != version(10) || reply.Next != 20 || reply.Status != causal.Stable {
			return "at the cut it does not find the version below it"
		}
		reply = r.mustGet(causal.Get{Key: key, Snapshot: true, Cut: 15, Seen: 25})
		if reply.Record.Version != version(20) || reply.Next != 30 {
			return "it returns a version below one that the reader may have to see"
		}
		if reply.Status != causal.InFlight {
			return "a version above the cut is reported as stable"
		}
		return ""
	})
}

func TestASnapshotReadPassesOverWhatIsInFlightAboveItsBase(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	for _, hlc := range []causal.HLC{10, 20, 30, 40} {
		r.put(key, record(version(hlc)))
	}
	r.raiseSV(20)
	for _, tt := range []struct {
		name       string
		g          causal.Get
		want, next causal.HLC
		status     causal.Status
	}{
		{"what is complete by SV", causal.Get{Cut: 5, At: 45, Base: 15}, 20, 30, causal.Stable},
		{"the base", causal.Get{Cut: 5, At: 45, Base: 35}, 30, 40, causal.InFlight},
		{"what was seen", causal.Get{Cut: 5, At: 45, Base: 25, Seen: 35}, 30, 40, causal.InFlight},
		{"no base", causal.Get{Cut: 5, At: 35}, 30, 40, causal.InFlight},
	} {
		tt.g.Key, tt.g.Snapshot = key, true
		got := r.mustGet(tt.g)
		if got.Record.Version.HLC != tt.want || got.Next != tt.next || got.Status != tt.status {
			t.Errorf("%s: version %d, next %d, %s; want %d, %d, %s", tt.name, got.Record.Version.HLC, got.Next,
				got.Status, tt.want, tt.next, tt.status)
		}
	}
}

func TestSnapshotReadBelowTheKeptVersionsReturnsTheVersionInStorage(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	r.records[key] = record(version(30))
	if reply := r.mustGet(causal.Get{Key: key, Snapshot: true, Cut: 15}); reply.Record.Version != version(30) ||
		reply.Next != 0 {
		t.Errorf("got %+v", reply)
	}
}

func TestOldVersionsAreForgottenOnceTheyAreBelowSVForLongEnough(t *testing.T) {
	r := newRig(t, func(c *Config) { c.KeepMs = 10 })
	key := r.key(self, 0)
	at := func(ms int64) causal.HLC { return causal.HLCAt(ms) }
	r.put(key, record(version(at(100))))
	r.put(key, record(version(at(200))))
	for _, c := range []struct {
		svMs int64
		want causal.ErrCode
	}{{205, causal.OK}, {211, causal.ErrCutTooOld}} {
		r.raiseSV(at(c.svMs))
		r.wait(purgeInterval)
		if got := r.mustGet(causal.Get{Key: key, Cut: at(150)}).Err; got != c.want {
			t.Errorf("SV at %d ms: %v, want %v", c.svMs, got, c.want)
		}
	}
}

func TestCountAndPingAreAnswered(t *testing.T) {
	r := newRig(t)
	r.put(r.key(self, 0), record(version(10)))
	r.put(r.key(self, 1), record(version(11)))
	r.step(causal.Count{ID: 5}.Message(sidecar, self))
	if got := r.received(causal.KindCountReply, sidecar); len(got) != 1 ||
		got[0].CountReply() != (causal.CountReply{ID: 5, Keys: 2}) {
		t.Errorf("count: %v", got)
	}
	r.step(causal.Ping{ID: 6}.Message(coordinator, self))
	if got := r.received(causal.KindPong, coordinator); len(got) != 1 ||
		got[0].Pong() != (causal.Pong{ID: 6, Map: r.topo.Map(0)}) {
		t.Errorf("ping: %v", got)
	}
}

func TestAReadThatIsRefusedIsAnsweredAsBusy(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	get := causal.Get{ID: 7, Key: key}.Message(sidecar, self)
	r.m.RefuseRead(r.now, &get)
	r.pump()
	if replies := r.received(causal.KindGetReply, sidecar); len(replies) != 1 || replies[0].GetReply().ID != 7 ||
		replies[0].GetReply().Err != causal.ErrBusy {
		t.Errorf("a get is answered %v", replies)
	}
	r.openStream(cacheA, 1)
	fill := causal.Fill{ID: 8, Key: key, Epoch: 1}.Message(cacheA, self)
	r.m.RefuseRead(r.now, &fill)
	r.pump()
	if replies := r.received(causal.KindFillReply, cacheA); len(replies) != 1 || replies[0].FillReply().ID != 8 ||
		replies[0].FillReply().Err != causal.ErrBusy {
		t.Errorf("a fill is answered %v", replies)
	}
	if n := r.m.Stats().RefusedReads; n != 2 {
		t.Errorf("%d are counted", n)
	}
}

// What slow storage is about to replace is held for reads at a cut, but no more than old versions may take.
func TestWhatWritesInProgressReplaceIsBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxHistoryBytes = 1500 })
	large := func(hlc causal.HLC) causal.Record {
		return causal.Record{Version: version(hlc), Value: causal.Value{Data: make([]byte, 1000)}}
	}
	a, b := r.key(self, 0), r.key(self, 1)
	r.put(a, large(10))
	r.put(b, large(20))
	r.hold = isWrite
	r.put(a, record(version(30)))
	r.put(b, record(version(40)))
	if n := r.m.tasks.replacedBytes; n != large(10).Value.Size() {
		t.Errorf("%d bytes are held", n)
	}
	r.proceed()
	if got := r.mustGet(causal.Get{Key: a, Cut: 25}); got.Err != causal.OK || got.Record.Version != version(10) {
		t.Errorf("of the first: %v, %v", got.Err, got.Record.Version)
	}
	if got := r.mustGet(causal.Get{Key: b, Cut: 25}); got.Err != causal.ErrCutTooOld {
		t.Errorf("of the second: %v, %v", got.Err, got.Record.Version)
	}
	if n := r.m.tasks.replacedBytes; n != 0 {
		t.Errorf("%d bytes are held after the writes", n)
	}
}
