// The page: what is shown, live or of an earlier moment.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { clock, duration, readsOf } from "./format";
import { MapView } from "./map";
import type { Fault, HistoryFrame, Layout, Mark, Snapshot, WriteTrace } from "./model";
import { DataCenterPanel, Overview, Problems, Sessions } from "./panels";
import { follow, getHistory, getLayout, getSnapshot, inject } from "./server";
import "./style.css";
import { Timeline } from "./timeline";
import { KeyPanel, TracePanel, useTrace } from "./write";

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

// Age shows how old what is shown is.
function Age({ connected, receivedAt, playing, factsAgeMs }: { connected: boolean; receivedAt: number; playing: Snapshot | null; factsAgeMs: number }) {
  const [now, setNow] = useState(performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), 500);
    return () => clearInterval(timer);
  }, []);
  if (playing) return <span class="age playing">Shown: {clock(playing.atMs)}, {duration(Date.now() - playing.atMs)} ago</span>;
  const age = Math.max(now - receivedAt, 0);
  const stale = !connected || age > 3000 + 2 * factsAgeMs;
  return <span class={`age ${stale ? "stale" : ""}`}>{stale ? `No connection: all facts are ${duration(age)} old` : `Live, facts are at most ${Math.ceil((Math.max(age - 500, 0) + factsAgeMs) / 1000)} s old`}</span>;
}

function App() {
  const { layout, live, frames, marks, connected, receivedAt, error } = useFeed();
  const [selected, setSelected] = useState("");
  const [tab, setTab] = useState<Tab>("dc");
  const [trace, setTrace] = useState<WriteTrace | null>(null);
  const [watched, setWatched] = useState("");
  const [playAt, setPlayAt] = useState<number | null>(null);
  const [played, setPlayed] = useState<Snapshot | null>(null);
  const [message, setMessage] = useState("");
  useTrace(trace, setTrace);
  useEffect(() => {
    if (playAt === null) {
      setPlayed(null);
      return;
    }
    let ended = false;
    getSnapshot(playAt).then((s) => !ended && setPlayed(s), (e: Error) => !ended && setMessage(e.message));
    return () => { ended = true; };
  }, [playAt]);

  if (!layout || !live) {
    return <p class="loading" role="status">{error ? `The server has no page yet: ${error}. This page tries again every 2 seconds.` : "Loading the state of the deployment."}</p>;
  }
  const known = new Set(layout.dataCenters.map((d) => d.name));
  const taken = played ?? live;
  // A snapshot may be of a layout that has changed since.
  const snapshot = { ...taken, dataCenters: taken.dataCenters.filter((d) => known.has(d.name)), links: taken.links.filter((l) => known.has(l.a) && known.has(l.b)) };
  const name = known.has(selected) ? selected : layout.dataCenters[0]!.name;
  const select = (n: string) => {
    setSelected(n);
    setTab("dc");
  };
  const hurt = async (f: Fault) => {
    try {
      await inject(f);
      setMessage(f.kind === "heal" ? "Healed." : "The fault is in effect. Heal everything to end it.");
    } catch (e) {
      setMessage((e as Error).message);
    }
  };
  const canHurt = layout.faults && playAt === null;
  return (
    <>
      <header>
        <h1>CausalStore <small>{layout.title}</small></h1>
        <Age connected={connected} receivedAt={receivedAt} playing={played} factsAgeMs={layout.factsAgeMs} />
        {layout.faults && <button disabled={!canHurt} onClick={() => hurt({ kind: "heal" })}>Heal everything</button>}
        <span class="message" role="status">{message}</span>
      </header>
      <main>
        <div class="left">
          <Problems problems={snapshot.problems} runbookBase={layout.runbookBase} select={select} />
          <MapView layout={layout} snapshot={snapshot} selected={name} select={select} trace={tab === "trace" || tab === "key" ? trace : null} />
          <Timeline layout={layout} frames={frames} marks={marks} playAt={playAt} play={setPlayAt} />
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
          <div role="tabpanel" id="panel" aria-labelledby={`tab-${tab}`} tabIndex={0}>
            {tab === "dc" && <DataCenterPanel layout={layout} snapshot={snapshot} name={name} hurt={canHurt ? hurt : null} />}
            {(tab === "trace" || tab === "key") && layout.noClient && <NotHere what={tab === "trace" ? "Writing a key" : "Watching a key"} why={layout.noClient} />}
            {tab === "trace" && !layout.noClient && <TracePanel layout={layout} from={name} trace={trace} setTrace={setTrace} watch={setWatched} live={playAt === null} />}
            {tab === "key" && !layout.noClient && <KeyPanel layout={layout} watched={watched} watch={setWatched} live={playAt === null} />}
            {tab === "sessions" && <Sessions layout={layout} snapshot={snapshot} />}
          </div>
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
