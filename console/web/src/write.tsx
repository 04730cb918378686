// Write a key and follow the write; watch where a key is and what readers get.
import { useEffect, useState } from "preact/hooks";
import { duration, millis } from "./format";
import type { KeyView, Layout, WriteTrace } from "./model";
import { RingName } from "./rings";
import { getKey, getTrace, startTrace } from "./server";

interface Props {
  layout: Layout;
  from: string;
  trace: WriteTrace | null;
  setTrace(t: WriteTrace | null): void;
  watch(key: string): void;
  live: boolean;
}

export function TracePanel({ layout, from, trace, setTrace, watch, live }: Props) {
  const [dataCenter, setDataCenter] = useState(from);
  const [key, setKey] = useState("post:1");
  const [value, setValue] = useState("hello");
  const [error, setError] = useState("");
  const write = async (e: Event) => {
    e.preventDefault();
    setError("");
    try {
      setTrace(await startTrace(dataCenter, key, value));
      watch(key);
    } catch (e) {
      setError((e as Error).message);
    }
  };
  return (
    <div>
      <h2>Write a key and follow it</h2>
      <form onSubmit={write}>
        <label>Data center <select value={dataCenter} onChange={(e) => setDataCenter(e.currentTarget.value)}>{layout.dataCenters.map((d) => <option key={d.name}>{d.name}</option>)}</select></label>
        <label>Key <input value={key} required maxLength={200} onInput={(e) => setKey(e.currentTarget.value)} /></label>
        <label>Value <input value={value} maxLength={200} onInput={(e) => setValue(e.currentTarget.value)} /></label>
        <button type="submit" class="primary" disabled={!live}>Write</button>
      </form>
      {!live && <p class="note">Go back to live to write.</p>}
      {error && <p class="error" role="alert">{error}</p>}
      {trace ? <TraceView layout={layout} trace={trace} /> : (
        <p class="note">The write is answered as soon as it is on disk in its data center, and then travels to every ring on its own. Here you see it arrive.</p>
      )}
    </div>
  );
}

// useTrace follows a trace until it is complete.
export function useTrace(trace: WriteTrace | null, setTrace: (t: WriteTrace) => void): void {
  const open = trace !== null && trace.completeMs === null && !trace.error;
  useEffect(() => {
    if (!open) return;
    let ended = false;
    const poll = async () => {
      try {
        const next = await getTrace(trace!.id);
        if (!ended) setTrace(next);
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
  ["receivedMs", "received", "The owner of the key in this ring has got it"],
  ["visibleMs", "visible", "Readers of this ring can see it, as a value that is not in every ring yet"],
  ["acknowledgedMs", "acknowledged", "The ring has it with all it depends on, its caches hold no older value, and the writer's data center knows"],
] as const;

function TraceView({ layout, trace }: { layout: Layout; trace: WriteTrace }) {
  const times = trace.rings.flatMap((r) => [r.receivedMs, r.visibleMs, r.acknowledgedMs]).concat(trace.completeMs, trace.acceptedMs);
  const end = Math.max(20, ...times.map((t) => t ?? 0)) * 1.05;
  const x = (ms: number) => (100 * ms) / end;
  const outcome = trace.error ? "failed" : trace.completeMs !== null ? "complete" : trace.acceptedMs === null ? "on its way to the log" : "accepted, not in every ring yet";
  return (
    <div class="traceview" data-trace={trace.completeMs !== null ? "complete" : "open"}>
      <p role="status">
        <b>{trace.key}</b>, slot {trace.slot}, written in {trace.dataCenter}: <b>{outcome}</b>
        {trace.completeMs !== null && <> after {millis(trace.completeMs)}: every session may now read it from anywhere.</>}
      </p>
      {trace.error && <p class="error">{trace.error}</p>}
      <table>
        <thead><tr><th scope="col">Ring and owner</th>{steps.map(([, name, note]) => <th key={name} scope="col" title={note}>{name}</th>)}</tr></thead>
        <tbody>
          <tr><th scope="row">log in {trace.dataCenter}</th><td colSpan={3}>OK to the client after {millis(trace.acceptedMs)}</td></tr>
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
          <tr><th scope="row">complete</th><td colSpan={3} class={trace.completeMs === null ? "unknown" : ""}>{millis(trace.completeMs)}</td></tr>
        </tbody>
      </table>
      <p class="note">
        {trace.caches.length === 0 ? "No cache had to drop an older value." : `Caches told to drop older values: ${trace.caches.map((c) => `${c.dataCenter} after ${millis(c.ms)}`).join(", ")}.`}
      </p>
    </div>
  );
}

export function KeyPanel({ layout, watched, watch, live }: { layout: Layout; watched: string; watch(key: string): void; live: boolean }) {
  const [key, setKey] = useState(watched || "post:1");
  const [view, setView] = useState<KeyView | null>(null);
  const [error, setError] = useState("");
  useEffect(() => setKey(watched || "post:1"), [watched]);
  useEffect(() => {
    if (!watched || !live) return;
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
  }, [watched, live]);
  return (
    <div>
      <h2>Watch a key</h2>
      <form onSubmit={(e) => { e.preventDefault(); setView(null); watch(key); }}>
        <label>Key <input value={key} required maxLength={200} onInput={(e) => setKey(e.currentTarget.value)} /></label>
        <button type="submit" class="primary" disabled={!live}>Watch</button>
      </form>
      {!live && <p class="note">A key is watched live only. What is below is the last that was seen.</p>}
      {error && <p class="error" role="alert">{error}</p>}
      {view && view.key === watched && <KeyTables layout={layout} view={view} />}
    </div>
  );
}

function show(v: { version: string; value: string; deleted?: boolean | undefined }) {
  if (!v.version) return <i>no value</i>;
  return v.deleted ? <i>deleted</i> : <code>{v.value === "" ? '""' : v.value}</code>;
}

function KeyTables({ layout, view }: { layout: Layout; view: KeyView }) {
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
      <table>
        <thead><tr><th scope="col">Data center</th><th scope="col">Value</th><th scope="col">From</th><th scope="col">May then read from</th></tr></thead>
        <tbody>
          {view.readers.map((r) => (
            <tr key={r.dataCenter}>
              <th scope="row">{r.dataCenter}</th>
              {r.unknown ? <td colSpan={3} class="unknown">unknown: {r.unknown}</td> : (
                <>
                  <td title={r.version && `version ${r.version}`}>{show(r)}</td>
                  <td>{r.source === "remote" ? "another data center" : r.source === "local" ? "local shard" : r.source}, {millis(r.tookMs)}</td>
                  <td>{r.rings.length === layout.rings.length ? "every ring" : <>{r.rings.map((n) => <RingName key={n} rings={layout.rings} ring={n} />)}<small>bound: {layout.rings.filter((n) => !r.rings.includes(n)).join(", ")} has not confirmed this value yet, and elsewhere the reader could see an older state</small></>}</td>
                </>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      <p class="note">These are real reads, each of a session of its own, once a second. Values that are in every ring go into the caches of the readers' data centers.</p>
    </div>
  );
}
