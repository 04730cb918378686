// What follows from a snapshot or a trace.
import { list, readsOf } from "./format";
import type { DataCenter, Layout, Snapshot, WriteTrace } from "./model";

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
    completeMs: then(t.completeMs),
    rings: t.rings.map((r) => ({ ...r, receivedMs: then(r.receivedMs), visibleMs: then(r.visibleMs), acknowledgedMs: then(r.acknowledgedMs) })),
    caches: t.caches.filter((c) => then(c.ms) !== null),
  };
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
