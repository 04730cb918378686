// The page: what is shown, live or of an earlier moment.
import { render } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { boundIn, faultsIn, rolesIn, traceAt, writeAt } from "./facts";
import { clock, duration, readsOf } from "./format";
import { Guide } from "./guide";
import { MapView } from "./map";
import type { Fault, HistoryFrame, Layout, Mark, Snapshot, WriteTrace } from "./model";
import { DataCenterPanel, Overview, Problems, Sessions } from "./panels";
import { follow, getHistory, getLayout, getSnapshot, getTrace, inject } from "./server";
import "./style.css";
import { Timeline } from "./timeline";
import { Words } from "./words";
import { KeyPanel, TracePanel, useKey, useTrace, type Entries } from "./write";

const retentionMs = 10 * 60_000;

const tabs = [["dc", "Data center"], ["trace", "Trace a write"], ["key", "Watch a key"], ["sessions", "Sessions"]] as const;
type Tab = (typeof tabs)[number][0];

// useFeed follows the server.
function useFeed() {
  const [layout, setLayout] = useState<Layout | null>(null);
  const [live, setLive] = useState<Snapshot | null>(null);
  const [frames, setFrames] = useState<HistoryFrame[]>([]);
  const [marks, setMarks] = useState<Mark[]>([]);
  const [connected, setConnected] = useState(false);
  const [error, setError] = useState("");
  const [receivedAt, setReceivedAt] = useState(0);
  useEffect(() => {
    const start = async () => {
      try {
        const [l, h] = await Promise.all([getLayout(), getHistory()]);
        setFrames(h.frames);
        setLayout(l);
        setError("");
      } catch (e) {
        setError((e as Error).message);
        setTimeout(start, 2000);
        return;
      }
      follow({
        ended: () => setTimeout(start, 2000),
        connected: setConnected,
        marks: setMarks,
        snapshot: (s) => {
          setLive(s);
          setReceivedAt(performance.now());
          setFrames((old) => [...old.filter((f) => f.atMs >= s.atMs - retentionMs && f.atMs < s.atMs), { atMs: s.atMs, points: s.dataCenters.map(pointOf) }]);
        },
      });
    };
    void start();
  }, []);
  return { layout, live, frames, marks, connected, receivedAt, error };
}

function pointOf(d: Snapshot["dataCenters"][number]): HistoryFrame["points"][number] {
  const r = d.rates;
  return { reads: r && readsOf(r), writes: r && r.writes, bound: d.bound, inFlight: d.inFlight, cutAgeMs: d.cutAgeMs };
}

// useNow returns the present time, which advances every half second.
function useNow(): number {
  const [now, setNow] = useState(performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), 500);
    return () => clearInterval(timer);
  }, []);
  return now;
}

// useStale reports whether the server no longer sends facts.
function useStale(connected: boolean, receivedAt: number, factsAgeMs: number): boolean {
  const [stale, setStale] = useState(false);
  useEffect(() => {
    const check = () => setStale(!connected || performance.now() - receivedAt > 3000 + 2 * factsAgeMs);
    check();
    const timer = setInterval(check, 500);
    return () => clearInterval(timer);
  }, [connected, receivedAt, factsAgeMs]);
  return stale;
}

// Ago is the time since a moment.
function Ago({ at }: { at: number }) {
  return <>{duration(Math.max(useNow() - at, 0))}</>;
}

// Age shows how old what is shown is.
function Age({ stale, receivedAt, playing, factsAgeMs }: { stale: boolean; receivedAt: number; playing: Snapshot | null; factsAgeMs: number }) {
  const age = Math.max(useNow() - receivedAt, 0);
  if (playing) return <span class="age playing">Shown: {clock(playing.atMs)}, {duration(Date.now() - playing.atMs)} ago</span>;
  return <span class={`age ${stale ? "stale" : ""}`}>{stale ? <>No connection: all facts are {duration(age)} old</> : `Live, facts are at most ${Math.ceil((Math.max(age - 500, 0) + factsAgeMs) / 1000)} s old`}</span>;
}

// isNarrow reports whether the details are below the map.
const isNarrow = () => matchMedia("(max-width: 1000px)").matches;

function App() {
  const { layout, live, frames, marks, connected, receivedAt, error } = useFeed();
  const stale = useStale(connected, receivedAt, layout?.factsAgeMs ?? 0);
  const [selected, setSelected] = useState("");
  const [tab, setTab] = useState<Tab>("dc");
  const [trace, setTrace] = useState<WriteTrace | null>(null);
  const [entries, setEntries] = useState<Entries>({ key: "post:1", writes: 0 });
  const [watched, setWatched] = useState("");
  const [playAt, setPlayAt] = useState<number | null>(null);
  const [played, setPlayed] = useState<Snapshot | null>(null);
  const [chosen, setChosen] = useState(0); // the write of the event that was chosen
  const [past, setPast] = useState<WriteTrace | null>(null); // the write that is shown of an earlier moment
  const [message, setMessage] = useState({ text: "", stays: false });
  const [guided, setGuided] = useState(true);
  const panel = useRef<HTMLDivElement>(null);
  const top = useRef<HTMLDivElement>(null);
  const keptHeight = useRef(0);
  // While the slider is moved, fewer problems must not move it.
  useLayoutEffect(() => {
    if (!top.current) return;
    keptHeight.current = playAt === null ? 0 : Math.max(keptHeight.current, top.current.offsetHeight);
    top.current.style.minHeight = keptHeight.current > 0 ? `${keptHeight.current}px` : "";
  }, [playAt, played]);
  const watching = useKey(watched, tab === "key" && playAt === null && !stale);
  useTrace(trace, setTrace);
  useTrace(past, setPast);
  const write = playAt === null || !played ? 0 : chosen || writeAt(marks, played.atMs);
  useEffect(() => {
    setPast(null);
    if (write === 0) return;
    let ended = false;
    getTrace(write).then((t) => !ended && setPast(t), () => !ended && chosen === write && setMessage({ text: "The way of this write is no longer known: the server keeps the last ones only.", stays: true }));
    return () => { ended = true; };
  }, [write]);
  useEffect(() => {
    if (playAt === null) {
      setPlayed(null);
      return;
    }
    let ended = false;
    getSnapshot(playAt).then((s) => !ended && setPlayed(s), (e: Error) => !ended && setMessage({ text: e.message, stays: true }));
    return () => { ended = true; };
  }, [playAt]);
  useEffect(() => {
    if (message.text === "" || message.stays) return;
    const timer = setTimeout(() => setMessage({ text: "", stays: false }), 5000);
    return () => clearTimeout(timer);
  }, [message]);

  if (!layout || !live) {
    return <p class="loading" role="status">{error ? `The server has no page yet: ${error}. This page tries again every 2 seconds.` : "Loading the state of the deployment."}</p>;
  }
  const known = new Set(layout.dataCenters.map((d) => d.name));
  const taken = played ?? live;
  // A snapshot may be of a layout that has changed since.
  const knownOf = (s: Snapshot) => ({ ...s, dataCenters: s.dataCenters.filter((d) => known.has(d.name)), links: s.links.filter((l) => known.has(l.a) && known.has(l.b)) });
  const snapshot = knownOf(taken);
  const name = known.has(selected) ? selected : layout.dataCenters[0]!.name;
  const show = (t: Tab, n = name) => {
    setSelected(n);
    setTab(t);
  };
  // reveal shows the details where they are not beside the map, and moves the focus there for people without a mouse.
  const reveal = (keyboard: boolean) => {
    if (isNarrow()) document.querySelector("aside")!.scrollIntoView();
    if (keyboard) panel.current!.focus({ preventScroll: true });
  };
  const select = (n: string, keyboard = false) => {
    show("dc", n);
    reveal(keyboard);
  };
  const showSessions = () => {
    show("sessions");
    reveal(false);
  };
  const hurt = async (f: Fault) => {
    try {
      await inject(f);
      setMessage({ text: f.kind === "heal" ? "Healed." : "", stays: false });
      return true;
    } catch (e) {
      setMessage({ text: (e as Error).message, stays: true });
      return false;
    }
  };
  const play = (atMs: number | null, write?: number) => {
    setPlayAt(atMs);
    setChosen(write ?? 0);
    setMessage({ text: "", stays: false });
    if (write !== undefined) setTab("trace");
  };
  const off = playAt !== null ? "Go back to live to write and read." : stale ? "The server does not answer." : "";
  const canHurt = layout.faults && off === "";
  const faults = layout.faults && off === "" ? faultsIn(snapshot) : "";
  const shownTrace = playAt === null ? trace : past && traceAt(past, snapshot.atMs);
  const roles = guided && layout.faults && !layout.noClient ? rolesIn(layout) : null;
  return (
    <>
      <header>
        <h1>CausalStore <small>{layout.title}</small></h1>
        <Age stale={stale} receivedAt={receivedAt} playing={played} factsAgeMs={layout.factsAgeMs} />
        {layout.faults && <button class={faults ? "primary" : ""} disabled={!canHurt} onClick={() => void hurt({ kind: "heal" })}>Heal everything</button>}
        <span class="message" role="status">{off === "" || message.stays ? message.text || (faults && `In effect: ${faults}.`) : ""}</span>
      </header>
      <main>
        <div class="left">
          <div ref={top} class={roles ? "top guided" : "top"}>
            <Problems snapshot={snapshot} bound={boundIn(snapshot)} runbookBase={layout.runbookBase} faults={layout.faults} hurt={canHurt ? hurt : null} select={select} showSessions={showSessions}
              when={played ? <>At {clock(played.atMs)}: </> : stale ? <>Unknown, as the server does not answer. <Ago at={receivedAt} /> ago: </> : null} />
            {roles && <Guide snapshot={knownOf(live)} past={playAt !== null} roles={roles} disabled={!canHurt} trace={trace} setTrace={setTrace} watch={setWatched} hurt={hurt} show={show} close={() => setGuided(false)} />}
          </div>
          <MapView layout={layout} snapshot={snapshot} selected={name} select={select} trace={tab === "trace" || tab === "key" ? shownTrace : null} stale={stale && playAt === null} />
          <Timeline layout={layout} frames={frames} marks={marks} playAt={playAt} play={play} />
          <Overview layout={layout} snapshot={snapshot} selected={name} select={select} />
        </div>
        <aside aria-label="Details">
          <div role="tablist" aria-label="Details">
            {tabs.map(([id, label], i) => (
              <button key={id} role="tab" id={`tab-${id}`} aria-selected={tab === id} aria-controls="panel" tabIndex={tab === id ? 0 : -1} onClick={() => setTab(id)}
                onKeyDown={(e) => {
                  const step = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
                  if (step === 0) return;
                  const next = tabs[(i + step + tabs.length) % tabs.length]![0];
                  setTab(next);
                  document.getElementById(`tab-${next}`)?.focus();
                }}>{label}</button>
            ))}
          </div>
          <div ref={panel} role="tabpanel" id="panel" aria-labelledby={`tab-${tab}`} tabIndex={0}>
            {tab === "dc" && <DataCenterPanel layout={layout} snapshot={snapshot} name={name} hurt={canHurt ? hurt : null} />}
            {(tab === "trace" || tab === "key") && layout.noClient && <NotHere what={tab === "trace" ? "Writing a key" : "Watching a key"} why={layout.noClient} />}
            {tab === "trace" && !layout.noClient && <TracePanel layout={layout} snapshot={snapshot} selected={name} entries={entries} setEntries={setEntries} trace={shownTrace} setTrace={setTrace} watch={setWatched} off={off} showSessions={showSessions} />}
            {tab === "key" && !layout.noClient && <KeyPanel layout={layout} snapshot={knownOf(live)} selected={name} watched={watched} watch={setWatched} watching={watching} off={off} showSessions={showSessions} />}
            {tab === "sessions" && <Sessions layout={layout} snapshot={snapshot} />}
          </div>
          <Words />
        </aside>
      </main>
      <footer>Topology epoch {snapshot.epoch}, version {layout.version}. One snapshot each {duration(layout.intervalMs)}.</footer>
    </>
  );
}

// NotHere says why something cannot be done with this page.
function NotHere({ what, why }: { what: string; why: string }) {
  return (
    <div>
      <h2>{what} is not possible here</h2>
      <p class="nothere">{why}</p>
    </div>
  );
}

const root = document.getElementById("page")!;
root.replaceChildren();
render(<App />, root);
