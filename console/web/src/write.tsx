// Write a key and follow the write; watch where a key is and what readers get.
import { useEffect, useState } from "preact/hooks";
import { cachesOf, reachOf, valueAfter } from "./facts";
import { clock, duration, list, millis } from "./format";
import type { KeyReading, KeyView, Layout, Snapshot, WriteTrace } from "./model";
import { RingName } from "./rings";
import { getKey, getTrace, readAsClient, startTrace } from "./server";

// Entries are what the user has entered; without dataCenter it is the one that is selected on the map, without value one that is proposed.
export interface Entries {
  dataCenter?: string;
  key: string;
  value?: string;
  writes: number; // how many were made
}

interface Props {
  layout: Layout;
  snapshot: Snapshot;
  selected: string;
  entries: Entries;
  setEntries(change: (old: Entries) => Entries): void;
  trace: WriteTrace | null;
  setTrace(t: WriteTrace | null): void;
  watch(key: string): void;
  off: string; // why nothing can be written and read; empty if it can
  showSessions(): void;
}

export function TracePanel({ layout, snapshot, selected, entries, setEntries, trace, setTrace, watch, off, showSessions }: Props) {
  const { key } = entries;
  const value = entries.value ?? valueAfter(entries.writes);
  const dataCenter = layout.dataCenters.some((d) => d.name === entries.dataCenter) ? entries.dataCenter! : selected;
  const [error, setError] = useState("");
  const write = async (e: Event) => {
    e.preventDefault();
    setError("");
    try {
      setTrace(await startTrace(dataCenter, key, value));
      setEntries((old) => ({ ...old, writes: old.writes + 1 }));
      watch(key);
    } catch (e) {
      setError((e as Error).message);
    }
  };
  return (
    <div>
      <h2>Write a key and follow it</h2>
      <form onSubmit={write}>
        <DataCenterSelect layout={layout} value={dataCenter} choose={(n) => setEntries((old) => ({ ...old, dataCenter: n }))} />
        <label>Key <input value={key} required maxLength={200} onInput={({ currentTarget: { value } }) => setEntries((old) => ({ ...old, key: value }))} /></label>
        <label>Value <input value={value} maxLength={200} onInput={({ currentTarget: { value } }) => setEntries((old) => ({ ...old, value }))} /></label>
        <button type="submit" class="primary" disabled={off !== ""}>Write</button>
      </form>
      {off && <p class="note">{off}</p>}
      {error && <p class="error" role="alert">{error}</p>}
      {trace ? <TraceView layout={layout} trace={trace} /> : (
        <p class="note">The write is answered as soon as it is on disk in its data center, and then travels to every ring on its own. Here you see it arrive.</p>
      )}
      {trace && <ReadAsClient layout={layout} snapshot={snapshot} keyName={trace.key} write={trace.id} selected={selected} off={off} showSessions={showSessions} />}
    </div>
  );
}

function DataCenterSelect({ layout, value, choose }: { layout: Layout; value: string; choose(name: string): void }) {
  return <label>Data center <select value={value} onChange={(e) => choose(e.currentTarget.value)}>{layout.dataCenters.map((d) => <option key={d.name}>{d.name}</option>)}</select></label>;
}

interface ReadProps {
  layout: Layout;
  snapshot: Snapshot;
  keyName: string;
  write?: number; // the write that is shown: what was read before another one is not
  selected: string;
  off: string;
  showSessions(): void;
}

// ReadAsClient reads a key in the session of the clients of a data center, which may be bound by that.
function ReadAsClient({ layout, snapshot, keyName, write, selected, off, showSessions }: ReadProps) {
  const [chosen, setChosen] = useState("");
  const [read, setRead] = useState<{ key: string; write: number | undefined; atMs: number; reading: KeyReading } | null>(null);
  const [error, setError] = useState("");
  const submit = async (e: Event) => {
    e.preventDefault();
    setError("");
    try {
      const reading = await readAsClient(chosen || selected, keyName);
      setRead({ key: keyName, write, atMs: Date.now(), reading });
    } catch (e) {
      setError((e as Error).message);
    }
  };
  const shown = read?.key === keyName && read.write === write ? read : null;
  const r = shown?.reading;
  const bound = r && !r.unknown && r.rings.length < layout.rings.length;
  return (
    <>
      <h3>Read {keyName} as a client</h3>
      <form onSubmit={submit}>
        <DataCenterSelect layout={layout} value={chosen || selected} choose={setChosen} />
        <button type="submit" disabled={off !== ""}>Read as a client</button>
      </form>
      {error && <p class="error" role="alert">{error}</p>}
      <p role="status" data-read={r ? (bound ? "bound" : "free") : undefined}>
        {r && (r.unknown ? <span class="unknown">Nothing was read in {r.dataCenter}: {r.unknown}</span> : (
          <>
            At {clock(shown!.atMs)}, {r.dataCenter} read {show(r)} from {sourceOf(r)} in {millis(r.tookMs)}.{" "}
            {bound
              ? <>Its session was then <b>bound</b> to {list(r.rings)}.{reaching(layout, snapshot, r)} <button class="plain" onClick={showSessions}>Show bound sessions</button></>
              : <>Its session was then free to read from every ring.{reaching(layout, snapshot, r)}</>}
          </>
        ))}
      </p>
    </>
  );
}

// reaching says which of the rings that a reader may read from it reaches, if not all of them.
function reaching(layout: Layout, snapshot: Snapshot, r: KeyReading): string {
  const reach = reachOf(layout, snapshot, r.dataCenter, r.rings);
  return reach && ` Now ${r.dataCenter}: ${reach.replace(/ now$/, "")}.`;
}

// useTrace follows a trace until it is complete.
export function useTrace(trace: WriteTrace | null, update: (change: (old: WriteTrace | null) => WriteTrace | null) => void): void {
  const open = trace !== null && trace.completeMs === null && !trace.error;
  useEffect(() => {
    if (!open) return;
    let ended = false;
    const poll = async () => {
      try {
        const next = await getTrace(trace!.id);
        if (!ended) update((old) => (old?.id === next.id ? next : old)); // another one may have been chosen meanwhile
      } catch {
        // the next one may succeed
      }
      if (!ended) timer = setTimeout(poll, 250);
    };
    let timer = setTimeout(poll, 100);
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [open, trace?.id]);
}

const steps = [
  ["receivedMs", "received", "the owner of the key in the ring has got it"],
  ["visibleMs", "visible", "readers of the ring can see it"],
  ["acknowledgedMs", "acknowledged", "the ring has it with all that it depends on, its caches hold no older value, and the acknowledgement has come back to the data center whose log has it"],
] as const;

function TraceView({ layout, trace }: { layout: Layout; trace: WriteTrace }) {
  const times = trace.rings.flatMap((r) => [r.receivedMs, r.visibleMs, r.acknowledgedMs]).concat(trace.completeMs, trace.acceptedMs);
  const end = Math.max(20, ...times.map((t) => t ?? 0)) * 1.05;
  const x = (ms: number) => (100 * ms) / end;
  const elsewhere = trace.acceptedIn && trace.acceptedIn !== trace.dataCenter ? trace.acceptedIn : "";
  const outcome = trace.error ? (trace.error.startsWith("UNKNOWN") ? "not known to be accepted" : "failed") : trace.completeMs !== null ? "complete" : trace.acceptedMs === null ? "on its way to the log" : "accepted, not in every ring yet";
  return (
    <div class="traceview" data-trace={trace.completeMs !== null ? "complete" : "open"}>
      <p role="status">
        <b>{trace.key}</b>, slot {trace.slot}, written in {trace.dataCenter}{elsewhere && `, accepted in ${elsewhere}`}: <b>{outcome}</b>
        {trace.completeMs !== null && <> after {millis(trace.completeMs)}: every session may now read it from anywhere.</>}
      </p>
      {trace.error && <p class="error">{trace.error}</p>}
      <p class="legend note">{steps.map(([, name, note]) => <span key={name}><i class={name} /><b>{name}</b>: {note}. </span>)}</p>
      <table>
        <thead><tr><th scope="col">Ring and owner</th>{steps.map(([, name, note]) => <th key={name} scope="col" title={note}>{name}</th>)}</tr></thead>
        <tbody>
          <tr><th scope="row">log{trace.acceptedIn && ` in ${trace.acceptedIn}`}</th><td colSpan={3} class={trace.acceptedMs === null ? "unknown" : ""}>{trace.acceptedMs === null ? "not yet" : `OK to the client after ${millis(trace.acceptedMs)}`}{elsewhere && `; no coordinator of ${trace.dataCenter} took it`}</td></tr>
          {trace.rings.map((r) => (
            <>
              <tr key={r.ring}>
                <th scope="row"><RingName rings={layout.rings} ring={r.ring} /><small>{r.dataCenter}, shard {r.shard}</small></th>
                {steps.map(([field, name]) => <td key={name} class={r[field] === null ? "unknown" : ""}>{millis(r[field])}</td>)}
              </tr>
              <tr key={`${r.ring} bar`} class="bar" aria-hidden="true">
                <td colSpan={4}>
                  <svg viewBox="0 0 100 4" preserveAspectRatio="none">
                    <rect class="none" y="1" width="100" height="2" />
                    {r.receivedMs !== null && <rect class="received" x={x(r.receivedMs)} y="1" width={Math.max(x((r.visibleMs ?? end) - r.receivedMs), 0.5)} height="2" />}
                    {r.visibleMs !== null && <rect class="visible" x={x(r.visibleMs)} y="1" width={Math.max(x((r.acknowledgedMs ?? end) - r.visibleMs), 0.5)} height="2" />}
                    {r.acknowledgedMs !== null && <rect class="acknowledged" x={x(r.acknowledgedMs)} y="1" width={100 - x(r.acknowledgedMs)} height="2" />}
                  </svg>
                </td>
              </tr>
            </>
          ))}
          <tr><th scope="row" title="the session that wrote it knows that every ring has it: its coordinator tells it after the last acknowledgement">complete</th><td colSpan={3} class={trace.completeMs === null ? "unknown" : ""}>{millis(trace.completeMs)}</td></tr>
        </tbody>
      </table>
      <p class="note" data-caches>{cachesOf(trace)}</p>
    </div>
  );
}

// Watching is what is known of a key that is watched.
interface Watching {
  view: KeyView | null;
  error: string;
}

// useKey reads a key once a second while it is active. It keeps what it has read last.
export function useKey(watched: string, active: boolean): Watching {
  const [view, setView] = useState<KeyView | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    if (!watched || !active) return;
    let ended = false;
    let timer = 0;
    const poll = async () => {
      if (!document.hidden) {
        try {
          const next = await getKey(watched);
          if (!ended) {
            setView(next);
            setError("");
          }
        } catch (e) {
          if (!ended) setError((e as Error).message);
        }
      }
      if (!ended) timer = setTimeout(poll, 1000);
    };
    void poll();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [watched, active]);
  return { view: view?.key === watched ? view : null, error: active ? error : "" };
}

interface KeyProps {
  layout: Layout;
  snapshot: Snapshot;
  selected: string;
  watched: string;
  watch(key: string): void;
  watching: Watching;
  off: string; // why nothing can be read; empty if it can
  showSessions(): void;
}

export function KeyPanel({ layout, snapshot, selected, watched, watch, watching: { view, error }, off, showSessions }: KeyProps) {
  const [key, setKey] = useState(watched || "post:1");
  useEffect(() => setKey(watched || "post:1"), [watched]);
  return (
    <div>
      <h2>Watch a key</h2>
      <form onSubmit={(e) => { e.preventDefault(); watch(key); }}>
        <label>Key <input value={key} required maxLength={200} onInput={(e) => setKey(e.currentTarget.value)} /></label>
        <button type="submit" class="primary" disabled={off !== ""}>Watch</button>
      </form>
      {off && <p class="note">A key is watched live only. {off}{view && ` What is below was seen at ${clock(view.atMs)}.`}</p>}
      {error && <p class="error" role="alert">{error}</p>}
      {view && <KeyTables layout={layout} snapshot={snapshot} view={view} />}
      {view && <ReadAsClient layout={layout} snapshot={snapshot} keyName={view.key} selected={selected} off={off} showSessions={showSessions} />}
    </div>
  );
}

function sourceOf(r: KeyReading): string {
  return r.source === "remote" ? "another data center" : r.source === "local" ? "local shard" : r.source;
}

function show(v: { version: string; value: string; deleted?: boolean | undefined }) {
  if (!v.version) return <i>no value</i>;
  return v.deleted ? <i>deleted</i> : <code>{v.value === "" ? '""' : v.value}</code>;
}

function KeyTables({ layout, snapshot, view }: { layout: Layout; snapshot: Snapshot; view: KeyView }) {
  const reach = new Map(view.readers.map((r) => [r.dataCenter, reachOf(layout, snapshot, r.dataCenter, r.rings)]));
  const missing = layout.rings.filter((n) => view.readers.some((r) => !r.unknown && r.version && !r.rings.includes(n)));
  return (
    <div class="key">
      <p><b>{view.key}</b> belongs to slot {view.slot}. In each ring, one shard owns it:</p>
      <table>
        <thead><tr><th scope="col">Ring</th><th scope="col">Owner</th><th scope="col">Value</th><th scope="col">Written</th></tr></thead>
        <tbody>
          {view.rings.map((r) => (
            <tr key={r.ring}>
              <th scope="row"><RingName rings={layout.rings} ring={r.ring} /></th>
              <td>{r.dataCenter}, shard {r.shard}</td>
              {r.unknown ? <td colSpan={2} class="unknown">unknown: {r.unknown}</td> : <><td title={r.version && `version ${r.version}`}>{show(r)}</td><td>{r.version ? `${duration(r.ageMs)} ago` : "-"}</td></>}
            </tr>
          ))}
        </tbody>
      </table>
      <h3>What a new reader gets now</h3>
      {missing.length > 0 && (
        <p class="nothere">
          <b>Bound</b>: {list(missing)} {missing.length === 1 ? "has" : "have"} not confirmed this value yet, and a reader of it could see an older state there. So it reads from the other rings until then.
        </p>
      )}
      <table>
        <thead><tr><th scope="col">Data center</th><th scope="col">Value</th><th scope="col">From</th><th scope="col">May then read from</th></tr></thead>
        <tbody>
          {view.readers.map((r) => (
            <tr key={r.dataCenter}>
              <th scope="row">{r.dataCenter}</th>
              {r.unknown ? <td colSpan={3} class="unknown">unknown: {r.unknown}</td> : (
                <>
                  <td title={r.version && `version ${r.version}`}>{show(r)}</td>
                  <td>{sourceOf(r)}, {millis(r.tookMs)}</td>
                  <td>{r.rings.length === layout.rings.length ? "every ring" : <>{r.rings.map((n) => <RingName key={n} rings={layout.rings} ring={n} />)}<small>bound</small></>}{reach.get(r.dataCenter) && <small>{reach.get(r.dataCenter)}</small>}</td>
                </>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      <p class="note">These are real reads, each of a session of its own, once a second: it ends at once, and is not listed among the sessions. They go through sidecars of the page's own, so reads per second and <i>Where reads are answered</i> do not count them; nor is a traced write among the writes per second. <i>Read as a client</i> counts. Values that are in every ring go into the caches of the readers' data centers.</p>
    </div>
  );
}
