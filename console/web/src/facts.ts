// What follows from a snapshot or a trace.
import { bytes, count, duration, list, readsOf, unknown } from "./format";
import type { DataCenter, Fault, Homes, KeyReading, Layout, Mark, Problem, Session, Snapshot, WriteTrace } from "./model";

export function healthOf(s: Snapshot, name: string): "" | "warning" | "critical" {
  const of = s.problems.filter((p) => p.dataCenter === name || p.other === name);
  if (of.some((p) => p.severity === "critical")) return "critical";
  return of.length > 0 ? "warning" : "";
}

export function operations(d: DataCenter): number | null {
  return d.rates && readsOf(d.rates) + d.rates.writes;
}

export function boundIn(s: Snapshot): number {
  return s.dataCenters.reduce((n, d) => n + (d.bound ?? 0), 0);
}

// isCutOff reports whether all links of a data center are cut.
export function isCutOff(s: Snapshot, name: string): boolean {
  const links = s.links.filter((l) => l.a === name || l.b === name);
  return links.length > 0 && links.every((l) => l.cutAB && l.cutBA);
}

// isCutBetween reports whether the link between two data centers is cut, in one direction at least.
export function isCutBetween(s: Snapshot, a: string, b: string): boolean {
  return s.links.some((l) => (l.cutAB || l.cutBA) && ((l.a === a && l.b === b) || (l.a === b && l.b === a)));
}

// reachOf says which of some rings a data center reaches now, or which it does not; it is empty if it reaches all of them.
export function reachOf(layout: Layout, s: Snapshot, name: string, rings: string[]): string {
  const reached: string[] = [];
  const away: string[] = [];
  for (const ring of rings) {
    const sites = layout.dataCenters.filter((d) => d.ring === ring);
    const n = sites.filter((d) => d.name === name || !isCutBetween(s, name, d.name)).length;
    const part = n < sites.length ? `part of ${ring}` : ring;
    if (n > 0) reached.push(part);
    if (n < sites.length) away.push(n > 0 ? part : ring);
  }
  if (away.length === 0) return "";
  if (reached.length === 0) return "reaches none of them now";
  return reached.length < away.length ? `reaches only ${list(reached)} now` : `cut off from ${list(away)} now`;
}

// lagOf is the stability lag of a data center. Where no write is in flight it follows the clock, also while nobody can hear of it.
export function lagOf(s: Snapshot, d: DataCenter): string {
  if (d.svLagMs === null || d.inFlight !== 0) return duration(d.svLagMs);
  return isCutOff(s, d.name) ? "cut off, no own write in flight" : `${duration(d.svLagMs)} (no own write in flight)`;
}

// ringLagOf is how old what a ring has of the writes of a data center is.
export function ringLagOf(layout: Layout, s: Snapshot, d: DataCenter, ring: string): string {
  const sites = layout.dataCenters.filter((x) => x.ring === ring && x.name !== d.name);
  const cut = sites.filter((x) => isCutBetween(s, d.name, x.name)).map((x) => x.name);
  const lag = d.ringLagMs[ring];
  if (lag === null || lag === undefined) return unknown;
  if (cut.length === 0) return d.inFlight === 0 ? "has all, no write in flight" : duration(lag); // the age would be that of the clock
  const from = `cut off from ${cut.length === sites.length && cut.length > 1 ? "all of it" : list(cut)}`;
  return d.inFlight === 0 ? `${from}, no write in flight` : `${duration(lag)}, ${from}`;
}

// sessionsOf says how many sessions a data center has, and what that counts.
export function sessionsOf(layout: Layout, d: DataCenter): string {
  if (d.sessions === null) return unknown;
  return `${count(d.sessions)}${layout.podSessions ? " for all clients" : ""}, ${count(d.bound)} bound`;
}

// homesOf says what the homes of a data center keep, and what waits there.
export function homesOf(h: Homes): string {
  return `${count(h.keys)} keys, ${bytes(h.bytes)}${h.waiting > 0 ? `, ${count(h.waiting)} reads wait` : ""}`;
}

// boundBy says what binds a session.
export function boundBy(s: Session): string {
  const what = s.oldestKey ? s.oldestKey : `a key of slot ${s.oldestSlot}`;
  return s.reads === 1 ? `by ${what}, in flight from ${s.oldestFrom}` : `by ${count(s.reads)} values in flight, the oldest ${what} from ${s.oldestFrom}`;
}

// faultsIn says which injected faults are in effect; it is empty if none is.
export function faultsIn(s: Snapshot): string {
  const faults: string[] = [];
  const cut = s.links.filter((l) => l.cutAB || l.cutBA).length;
  if (cut > 0) faults.push(cut === 1 ? "1 link cut" : `${cut} links cut`);
  const delayed = s.dataCenters.filter((d) => d.addedDelayMs);
  if (delayed.length > 0) faults.push(`links of ${list(delayed.map((d) => d.name))} delayed`);
  const parts = s.dataCenters.flatMap((d) => d.parts);
  for (const state of ["down", "hangs"] as const) {
    const n = parts.filter((p) => p.state === state).length;
    if (n > 0) faults.push(`${n} ${n === 1 ? "part" : "parts"} ${state === "down" ? "down" : "paused"}`);
  }
  return faults.join(", ");
}

// traceAt returns a trace as it was at a moment; null if the write was made later.
export function traceAt(t: WriteTrace, atMs: number): WriteTrace | null {
  if (t.startedMs > atMs) return null;
  const then = (ms: number | null) => (ms !== null && t.startedMs + ms <= atMs ? ms : null);
  return {
    ...t,
    acceptedMs: then(t.acceptedMs),
    ...(then(t.acceptedMs) === null ? { acceptedIn: "" } : {}),
    completeMs: then(t.completeMs),
    rings: t.rings.map((r) => ({ ...r, receivedMs: then(r.receivedMs), visibleMs: then(r.visibleMs), acknowledgedMs: then(r.acknowledgedMs) })),
    caches: t.caches.filter((c) => then(c.ms) !== null),
  };
}

// writeAt returns the number of the last traced write before a moment; 0 if there is none.
export function writeAt(marks: Mark[], atMs: number): number {
  return marks.findLast((m) => m.trace && m.atMs <= atMs)?.trace ?? 0;
}

// markAt returns which of the events, the newest first, is the last one before a moment; -1 if there is none.
export function markAt(marks: Mark[], atMs: number): number {
  return marks.findIndex((m) => m.atMs <= atMs);
}

// valueAfter proposes the value of the next write: another one after each write.
export function valueAfter(writes: number): string {
  return writes === 0 ? "hello" : `hello ${writes + 1}`;
}

// cachesOf says which caches a write was taken out of. Before it is complete, more may follow.
export function cachesOf(t: WriteTrace): string {
  const told = t.caches.length > 0 ? `Caches told to drop older values: ${t.caches.map((c) => `${c.dataCenter} after ${Math.round(c.ms)} ms`).join(", ")}.` : "";
  if (t.completeMs !== null) {
    return told || "No cache was told to drop an older value: none had one that it could still serve. The lease of a cache on a shard ends when it has read nothing from there for half a minute; its values from there are void then.";
  }
  return told ? `${told} Until the write is complete, there may be more.` : "Which caches are told to drop an older value is known when the write is complete.";
}

export interface Remedy {
  text: string;
  label?: string; // of the button that does it
  fault?: Fault;
}

// remedyOf says what to do about a problem of a deployment whose faults this page injects.
export function remedyOf(s: Snapshot, p: Problem): Remedy {
  const heal = { label: "Heal everything", fault: { kind: "heal" } };
  const all = s.dataCenters.filter((d) => d.name === p.dataCenter || d.name === p.other);
  const part = all[0]?.parts.find((x) => x.name === p.part);
  const which = part && { dc: p.dataCenter!, part: part.kind, index: part.index, ...(part.member ? { member: part.member } : {}) };
  const delayed = all.find((d) => d.addedDelayMs);
  switch (p.runbook) {
    case "CausalStorePeersDisconnected":
      return p.other
        ? { text: "A fault has cut this link. Writes that wait for it arrive when it is back.", label: `Reconnect ${p.dataCenter} and ${p.other}`, fault: { kind: "reconnect", from: p.dataCenter!, to: p.other } }
        : { text: "A fault has cut all links of this data center. It gets the writes that it lacks when they are back.", label: `Reconnect ${p.dataCenter}`, fault: { kind: "reconnect", from: p.dataCenter!, to: "*" } };
    case "CausalStorePartDown":
      if (part?.state === "down") return { text: "A fault has crashed it. It continues with what is on its disk; a cache begins empty.", label: `Restart ${part.name} of ${p.dataCenter}`, fault: { kind: "restart", ...which! } };
      if (part?.state === "hangs") return { text: "A fault has paused it: it answers nothing until it is resumed.", label: `Resume ${part.name} of ${p.dataCenter}`, fault: { kind: "resume", ...which! } };
      return { text: "It is up again." };
    case "CausalStorePartNotReady":
      return { text: "It starts, or waits for another part, whose problem is listed too. There is nothing else to do." };
    case "CausalStoreRingBehind":
      if (delayed) return { text: `A fault delays the links of ${delayed.name}.`, label: `End the delay of the links of ${delayed.name}`, fault: { kind: "congest", dc: delayed.name, addMs: 0 } };
      if (faultsIn(s) === "") return { text: "No fault is in effect: the ring is catching up, or this machine is too busy to answer in time." };
      return { text: "A data center of the ring is cut off, or one of its parts does not serve: that is listed as a problem of its own. The ring catches up when it is over.", ...heal };
  }
  return faultsIn(s) === "" ? { text: "No fault is in effect: this machine, or its disk, may be too busy or full." } : { text: "Writes that a ring cannot get collect here. End what keeps them from it.", ...heal };
}

export interface Roles {
  victim: string; // the data center to cut off, the only one of its ring if there is such a one
  ring: string; // of the victim
  writer: string;
  reader: string;
}

// rolesIn chooses the data centers of the first steps; null if there are too few.
export function rolesIn(layout: Layout): Roles | null {
  const inRing = (ring: string) => layout.dataCenters.filter((d) => d.ring === ring);
  const victim = layout.dataCenters.find((d) => inRing(d.ring).length === 1);
  if (!victim) return null;
  const [writer, reader] = layout.dataCenters.filter((d) => d.ring !== victim.ring);
  return writer && reader ? { victim: victim.name, ring: victim.ring, writer: writer.name, reader: reader.name } : null;
}

// Calm is what was wrong, and how many sessions were bound, when the first steps had ended.
export interface Calm {
  faults: string;
  bound: number;
}

// calmAfter follows a deployment after the first steps, while faults end and sessions are released. It returns null at the next fault or bound
// session: what the steps say last is over then.
export function calmAfter(was: Calm | null, s: Snapshot): Calm | null {
  const is = { faults: faultsIn(s), bound: boundIn(s) };
  if (was && ((is.faults !== "" && is.faults !== was.faults) || is.bound > was.bound)) return null;
  return is;
}

// Step is what the first steps ask for next; late: the write has got everywhere before it was read; end: nothing.
export type Step = "cut" | "write" | "read" | "heal" | "late" | "end";

// stepOf follows what the server reports, whoever has injected and ended faults. isHealed says that the last step was reached before.
export function stepOf(s: Snapshot, roles: Roles, write: WriteTrace | null, reading: KeyReading | null, isHealed: boolean): Step {
  if (isHealed) return "end";
  if (!write || write.error) return isCutOff(s, roles.victim) ? "write" : "cut";
  const arrives = write.completeMs !== null || !isCutBetween(s, write.acceptedIn || write.dataCenter, roles.victim);
  if (reading) return arrives ? "end" : "heal";
  return arrives ? "late" : "read";
}
