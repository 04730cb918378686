// Checks what follows from snapshots and traces (src/facts.ts): node facts.mjs SOURCE. Each check prints "ok NAME" or "not ok NAME: REASON".
import assert from "node:assert/strict";
import { build } from "esbuild";

const bundle = await build({ entryPoints: [process.argv[2]], bundle: true, write: false, format: "esm", logLevel: "error" });
const facts = await import(`data:text/javascript;base64,${Buffer.from(bundle.outputFiles[0].text).toString("base64")}`);

const layout = { rings: ["north", "south"], dataCenters: [{ name: "a", ring: "north" }, { name: "b", ring: "north" }, { name: "c", ring: "south" }] };
const roles = { victim: "c", ring: "south", writer: "a", reader: "b" };
const pairs = [["a", "b"], ["a", "c"], ["b", "c"]];
// snapshot has the links cut that are named, such as "ac".
const snapshot = (...cut) => ({
  atMs: 1000, problems: [], links: pairs.map(([a, b]) => ({ a, b, cutAB: cut.includes(a + b), cutBA: cut.includes(a + b) })),
  dataCenters: layout.dataCenters.map(({ name }) => ({ name, parts: [], inFlight: 0, svLagMs: 90, ringLagMs: { north: 90, south: 90 }, sessions: 1, bound: 0 })),
});
const away = snapshot("ac", "bc"); // c is cut off
const trace = (more) => ({ id: 1, dataCenter: "a", acceptedIn: "a", startedMs: 100, acceptedMs: 5, completeMs: null, rings: [], caches: [], ...more });

const checks = [
  ["the first steps follow what the server reports", () => {
    const reading = { dataCenter: "b", rings: ["north"] };
    for (const [want, s, write, read, healed] of [
      ["cut", snapshot(), null, null], ["cut", snapshot("ac"), null, null], ["write", away, null, null], ["write", away, trace({ error: "no" }), null],
      ["read", away, trace(), null], ["late", snapshot(), trace(), null], ["late", away, trace({ completeMs: 9 }), null],
      ["heal", away, trace(), reading], ["end", snapshot(), trace(), reading], ["heal", snapshot("ac"), trace(), reading],
      ["end", snapshot("ac"), trace({ acceptedIn: "b" }), reading], ["end", away, trace(), reading, true],
    ]) assert.equal(facts.stepOf(s, roles, write, read, !!healed), want);
  }],
  ["caches are told of only when it is known", () => {
    const told = [{ dataCenter: "b", index: 0, ms: 7 }];
    assert.match(facts.cachesOf(trace()), /is known when the write is complete/);
    assert.match(facts.cachesOf(trace({ caches: told })), /b after 7 ms.*there may be more/);
    assert.match(facts.cachesOf(trace({ completeMs: 9 })), /^No cache was told/);
    assert.equal(facts.cachesOf(trace({ completeMs: 9, caches: told })), "Caches told to drop older values: b after 7 ms.");
  }],
  ["a trace of an earlier moment has no origin before it was accepted", () => {
    assert.equal(facts.traceAt(trace({ acceptedIn: "b" }), 104).acceptedIn, "");
    assert.equal(facts.traceAt(trace({ acceptedIn: "b" }), 105).acceptedIn, "b");
    assert.equal(facts.traceAt(trace(), 99), null);
  }],
  ["the write of a moment is the last one before it", () => {
    const marks = [{ atMs: 10, trace: 1 }, { atMs: 20 }, { atMs: 30, trace: 2 }];
    assert.deepEqual([5, 10, 29, 30].map((at) => facts.writeAt(marks, at)), [0, 1, 1, 2]);
  }],
  ["a reader that is cut off reaches some rings only", () => {
    assert.equal(facts.reachOf(layout, snapshot(), "c", layout.rings), "");
    assert.equal(facts.reachOf(layout, away, "c", layout.rings), "cut off from north now");
    assert.equal(facts.reachOf(layout, away, "a", layout.rings), "cut off from south now");
    assert.equal(facts.reachOf(layout, snapshot("ac"), "c", layout.rings), "cut off from part of north now");
    assert.equal(facts.reachOf(layout, away, "c", ["north"]), "reaches none of them now");
    const three = { rings: [...layout.rings, "east"], dataCenters: [...layout.dataCenters, { name: "d", ring: "east" }] };
    const alone = { ...away, links: [...away.links, { a: "c", b: "d", cutAB: true, cutBA: true }] };
    assert.equal(facts.reachOf(three, alone, "c", three.rings), "reaches only south now");
  }],
  ["nobody is said to wait for nothing where that is not known", () => {
    assert.equal(facts.lagOf(snapshot(), snapshot().dataCenters[2]), "90 ms (no own write in flight)");
    assert.equal(facts.lagOf(away, away.dataCenters[2]), "cut off, no own write in flight");
    assert.equal(facts.ringLagOf(layout, away, away.dataCenters[2], "north"), "cut off from all of it, no write in flight");
    assert.equal(facts.ringLagOf(layout, away, { ...away.dataCenters[0], inFlight: 2 }, "south"), "90 ms, cut off from c");
    assert.equal(facts.ringLagOf(layout, away, away.dataCenters[0], "north"), "has all, no write in flight");
    assert.equal(facts.ringLagOf(layout, away, { ...away.dataCenters[0], inFlight: 2 }, "north"), "90 ms");
  }],
  ["the last event before a moment is marked", () => {
    assert.deepEqual([30, 29, 10, 9].map((at) => facts.markAt([{ atMs: 30 }, { atMs: 20 }, { atMs: 10 }], at)), [0, 1, 2, -1]);
  }],
  ["each write has another value", () => assert.deepEqual([0, 1, 2].map(facts.valueAfter), ["hello", "hello 2", "hello 3"])],
  ["the first steps are over at the next fault or bound session", () => {
    const bound = (s, n) => ({ ...s, dataCenters: s.dataCenters.map((d, i) => (i === 0 ? { ...d, bound: n } : d)) });
    const after = (...all) => all.reduce((calm, s, i) => (i > 0 && !calm ? null : facts.calmAfter(calm, s)), null) !== null;
    assert.equal(after(snapshot(), snapshot()), true);
    assert.equal(after(snapshot("ac"), snapshot("ac"), snapshot()), true); // another fault, which lasted
    assert.equal(after(snapshot("ac"), snapshot(), snapshot("ac")), false);
    assert.equal(after(snapshot(), away), false);
    assert.equal(after(bound(snapshot(), 1), snapshot()), true);
    assert.equal(after(bound(snapshot(), 1), snapshot(), bound(snapshot(), 1)), false);
  }],
  ["a problem on this machine is ended by its own fault", () => {
    const fault = (s, p) => facts.remedyOf(s, p).fault;
    assert.deepEqual(fault(away, { runbook: "CausalStorePeersDisconnected", dataCenter: "c" }), { kind: "reconnect", from: "c", to: "*" });
    assert.deepEqual(fault(snapshot("ac"), { runbook: "CausalStorePeersDisconnected", dataCenter: "a", other: "c" }), { kind: "reconnect", from: "a", to: "c" });
    const s = snapshot();
    s.dataCenters[0].parts = [{ name: "coordinator 0", kind: "coordinator", index: 0, state: "down" }];
    assert.deepEqual(fault(s, { runbook: "CausalStorePartDown", dataCenter: "a", part: "coordinator 0" }), { kind: "restart", dc: "a", part: "coordinator", index: 0 });
    s.dataCenters[0].parts[0].state = "hangs";
    assert.equal(fault(s, { runbook: "CausalStorePartDown", dataCenter: "a", part: "coordinator 0" }).kind, "resume");
    s.dataCenters[1].addedDelayMs = 600;
    assert.deepEqual(fault(s, { runbook: "CausalStoreRingBehind", dataCenter: "a", other: "b" }), { kind: "congest", dc: "b", addMs: 0 });
    assert.equal(fault(snapshot(), { runbook: "CausalStoreRingBehind", dataCenter: "a" }), undefined);
  }],
  ["homes say what they keep, and of reads only those that wait", () => {
    assert.equal(facts.homesOf({ keys: 1200, bytes: 2048, waiting: 0 }), "1,200 keys, 2.0 KiB");
    assert.equal(facts.homesOf({ keys: 0, bytes: 0, waiting: 3 }), "0 keys, 0 B, 3 reads wait");
  }],
];

let failed = false;
for (const [name, check] of checks) {
  try {
    check();
    console.log(`ok ${name}`);
  } catch (e) {
    failed = true;
    console.log(`not ok ${name}: ${String(e.message).replaceAll("\n", " ")}`);
  }
}
process.exit(failed ? 1 : 0);
