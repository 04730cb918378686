// The panel of one data center, and the lists of problems and sessions.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { boundBy, homesOf, isCutOff, lagOf, ringLagOf, sessionsOf } from "./facts";
import { bytes, count, duration, millis, percent, rate, readsOf, unknown } from "./format";
import type { DataCenter, Fault, Layout, Problem, Snapshot } from "./model";
import { RingName } from "./rings";
import { Runbook } from "./runbook";

// At first so many problems are shown: what is below them should not move far.
const shownProblems = 3;

interface ProblemsProps {
  snapshot: Snapshot;
  bound: number; // sessions
  runbookBase: string;
  faults: boolean; // the page may have injected what is wrong
  hurt: ((f: Fault) => Promise<boolean>) | null; // null: no faults can be injected or ended now
  when: ComponentChildren; // what comes before the number of problems if they are not those of now
  select(name: string): void;
  showSessions(): void;
}

export function Problems({ snapshot, bound, runbookBase, faults, hurt, when, select, showSessions }: ProblemsProps) {
  const { problems } = snapshot;
  const [runbook, setRunbook] = useState<Problem | null>(null);
  const [all, setAll] = useState(false);
  const more = problems.length - shownProblems;
  const number = problems.length === 0 ? "no problem" : problems.length === 1 ? "1 problem" : `${problems.length} problems`;
  return (
    <>
      <section class="problems" aria-label="Problems">
        <div class="head">
          <h2>{when}{when ? number : number.replace("no", "No")}</h2>
          {bound > 0 && <button class="plain" onClick={showSessions}>{bound === 1 ? "1 session is bound" : `${bound} sessions are bound`}</button>}
        </div>
        {problems.length > 0 && (
          <ul>
            {problems.slice(0, all ? undefined : shownProblems).map((p) => (
              <li key={p.text} class={p.severity}>
                <b>{p.severity === "critical" ? "Critical" : "Warning"}</b> {p.text}{" "}
                {[p.dataCenter, p.other].map((name) => name && <><button class="plain" onClick={() => select(name)}>Show {name}</button>{" "}</>)}
                <button class="plain" onClick={() => setRunbook(p)}>What to do</button>
              </li>
            ))}
          </ul>
        )}
        {more > 0 && <button class="plain" aria-expanded={all} onClick={() => setAll(!all)}>{all ? "Show fewer" : `Show ${more} more`}</button>}
      </section>
      {runbook && <Runbook problem={runbook} snapshot={snapshot} base={runbookBase} faults={faults} hurt={hurt} close={() => setRunbook(null)} />}
    </>
  );
}

function Fact({ name, value, note }: { name: string; value: string; note?: string }) {
  return (
    <div>
      <dt title={note}>{name}</dt>
      <dd class={value === unknown ? "unknown" : ""}>{value}</dd>
    </div>
  );
}

function Sources({ d }: { d: DataCenter }) {
  if (!d.rates) return <p class="note">Rates are unknown until there are two snapshots.</p>;
  const { own, near, home, cache, local, remote } = d.rates;
  const all = readsOf(d.rates);
  const parts: [string, number][] = [["own writes", own], ["near copies", near], ["home of the key", home], ["cache", cache], ["local shard", local], ["remote shard", remote]];
  let x = 0;
  return (
    <div class="sources">
      <svg viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={`Reads: ${percent(all - remote, all)} answered in the data center`}>
        <rect class="none" width="100" height="6" />
        {all > 0 && parts.map(([name, n], i) => {
          const at = x;
          x += (100 * n) / all;
          return <rect key={name} class={`source${i}`} x={at} width={(100 * n) / all} height="6" />;
        })}
      </svg>
      <ul>{parts.map(([name, n], i) => <li key={name}><i class={`source${i}`} />{name} {all > 0 ? percent(n, all) : "-"}</li>)}</ul>
    </div>
  );
}

interface Props {
  layout: Layout;
  snapshot: Snapshot;
  name: string;
  hurt: ((f: Fault) => Promise<boolean>) | null; // null: no faults can be injected
}

export function DataCenterPanel({ layout, snapshot, name, hurt }: Props) {
  const d = snapshot.dataCenters.find((x) => x.name === name);
  const site = layout.dataCenters.find((x) => x.name === name);
  if (!d || !site) return <p class="note">Nothing is known of {name} at this time.</p>;
  if (d.elsewhere) {
    return (
      <div class="dc">
        <h2>{d.name}</h2>
        <p class="sub"><RingName rings={layout.rings} ring={site.ring} />{site.region && <span>region {site.region}</span>}</p>
        <p class="nothere">{d.elsewhere}</p>
        <Links layout={layout} snapshot={snapshot} name={name} hurt={null} />
      </div>
    );
  }
  const r = d.rates;
  const reads = r && readsOf(r);
  const buffer = d.bufferBytes === null ? unknown : `${bytes(d.bufferBytes)} of ${bytes(d.bufferLimitBytes)}`;
  return (
    <div class="dc">
      <h2>{d.name}</h2>
      <p class="sub"><RingName rings={layout.rings} ring={site.ring} />{site.region && <span>region {site.region}</span>}{site.address && <code>redis-cli -p {site.address.split(":").pop()}</code>}</p>
      <dl class="facts">
        <Fact name="Reads" value={reads === null ? unknown : `${rate(reads)}/s`} />
        <Fact name="Writes" value={r ? `${rate(r.writes)}/s` : unknown} />
        <Fact name="Failed" value={r ? `${rate(r.failed)}/s` : unknown} note="Operations without an answer, or with an unknown outcome" />
        <Fact name="Read in this DC" value={r ? percent(reads! - r.remote, reads!) : unknown} note="Share of reads answered in this data center" />
        <Fact name="Sessions" value={sessionsOf(layout, d)} note={layout.podSessions ? "All connections to the sidecar here are one session, which stays when no client is connected. A bound session has read a value in flight" : "A bound session has read a value in flight. One of them is the page's own, once it has read as a client here"} />
        <Fact name="Writes in flight" value={count(d.inFlight)} note="Accepted here, and not in every ring yet" />
        <Fact name="Write buffer" value={buffer} note="When it is full, writes are refused" />
        <Fact name="Stability lag" value={lagOf(snapshot, d)} note="Age of the newest moment up to which all writes accepted here are in every ring, as the coordinators here know" />
        <Fact name="Stable state" value={d.cutAgeMs === null ? unknown : `${duration(d.cutAgeMs)} old`} note="Age of the newest moment up to which the writes of all data centers are in every ring, as the sidecar here knows" />
        <Fact name="Skew" value={duration(d.skewMs)} note="Writes of some data centers are known to be in every ring up to a newer moment than those of others: the difference, as the sidecar here knows" />
        {d.homes && <Fact name="Homes of keys" value={homesOf(d.homes)} note="What the coordinators here know of keys, and clients of all sidecars here read from them: writes that are not in every ring, or were not until a moment ago. Reads wait there while a write of their key is under way" />}
        <Fact name="Cached" value={d.cacheEntries === null ? unknown : `${count(d.cacheEntries)} keys, ${bytes(d.cacheBytes)}`} />
        <Fact name="Connections" value={count(d.connections)} note="Redis clients that are connected now. The page is none of them" />
      </dl>
      <h3>Where reads are answered</h3>
      <Sources d={d} />
      {hurt && <Faults d={d} isCutOff={isCutOff(snapshot, name)} hurt={hurt} />}
      <h3>Parts</h3>
      <table>
        <thead><tr><th scope="col">Part</th><th scope="col">State</th><th scope="col">For</th>{hurt && <th scope="col">Fault</th>}</tr></thead>
        <tbody>
          {d.parts.map((p) => (
            <tr key={p.name}>
              <th scope="row">{p.name}</th>
              <td class={`state ${p.state.replace(" ", "-")}`} title={p.version && `version ${p.version}`}>{p.state}</td>
              <td>{p.sinceMs === null ? (layout.faults ? "since the start" : unknown) : duration(p.sinceMs)}</td>
              {hurt && (
                <td>
                  <button aria-label={`${p.state === "down" ? "Restart" : "Crash"} ${p.name} of ${d.name}`}
                    onClick={() => void hurt({ kind: p.state === "down" ? "restart" : "crash", dc: d.name, part: p.kind, index: p.index, ...(p.member ? { member: p.member } : {}) })}>
                    {p.state === "down" ? "Restart" : "Crash"}
                  </button>
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      <p class="note">Version: {[...new Set(d.parts.map((p) => p.version ?? ""))].filter((v) => v).join(", ") || unknown}</p>
      <h3>Age of what each ring has of the writes from here</h3>
      <table>
        <tbody>
          {layout.rings.map((ring) => (
            <tr key={ring}><th scope="row"><RingName rings={layout.rings} ring={ring} /></th><td>{ringLagOf(layout, snapshot, d, ring)}</td></tr>
          ))}
        </tbody>
      </table>
      <Links layout={layout} snapshot={snapshot} name={name} hurt={hurt} />
    </div>
  );
}

const delayMs = 600;

function Faults({ d, isCutOff, hurt }: { d: DataCenter; isCutOff: boolean; hurt(f: Fault): Promise<boolean> }) {
  return (
    <div class="faults" role="group" aria-label={`Faults of ${d.name}`}>
      {isCutOff
        ? <button class="primary" onClick={() => void hurt({ kind: "reconnect", from: d.name, to: "*" })}>Reconnect {d.name}</button>
        : <button class="danger" onClick={() => void hurt({ kind: "cut", from: d.name, to: "*" })}>Cut {d.name} off</button>}
      {d.addedDelayMs
        ? <button class="primary" onClick={() => void hurt({ kind: "congest", dc: d.name, addMs: 0 })}>End the delay of its links</button>
        : <button onClick={() => void hurt({ kind: "congest", dc: d.name, addMs: delayMs })}>Delay its links by {delayMs} ms each way</button>}
    </div>
  );
}

function Links({ layout, snapshot, name, hurt }: { layout: Layout; snapshot: Snapshot; name: string; hurt: Props["hurt"] }) {
  const links = snapshot.links.filter((l) => l.a === name || l.b === name);
  return (
    <>
      <h3>Network</h3>
      <table>
        <thead><tr><th scope="col">To</th><th scope="col">Round trip</th><th scope="col">Traffic</th>{hurt && <th scope="col">Fault</th>}</tr></thead>
        <tbody>
          {links.map((l) => {
            const other = l.a === name ? l.b : l.a;
            const cut = l.cutAB || l.cutBA;
            return (
              <tr key={other}>
                <th scope="row">{other}</th>
                <td class={cut ? "state down" : ""}>{cut ? (layout.faults ? "cut" : "no answer") : l.roundTripMs === null ? unknown : millis(l.roundTripMs)}</td>
                <td>{l.bytesPerSecond === null ? unknown : `${bytes(l.bytesPerSecond)}/s`}</td>
                {hurt && (
                  <td>
                    <button aria-label={cut ? `Reconnect ${name} and ${other}` : `Cut ${name} from ${other}`} onClick={() => void hurt({ kind: cut ? "reconnect" : "cut", from: name, to: other })}>
                      {cut ? "Reconnect" : "Cut"}
                    </button>
                  </td>
                )}
              </tr>
            );
          })}
        </tbody>
      </table>
    </>
  );
}

export function Sessions({ layout, snapshot }: { layout: Layout; snapshot: Snapshot }) {
  const rows = snapshot.dataCenters.flatMap((d) => (d.boundSessions ?? []).map((s) => ({ d, s })));
  const counted = snapshot.dataCenters.filter((d) => d.boundSessions === null && !d.elsewhere);
  const bound = snapshot.dataCenters.reduce((n, d) => n + (d.bound ?? 0), 0);
  return (
    <div>
      <h2>Bound sessions</h2>
      <p class="note">
        A session that has read a value which is not in every ring yet may read only from the rings that have it: elsewhere it could see an
        older state. It is released when the last ring has the value.
      </p>
      <p class="note">
        {layout.podSessions
          ? "All connections to one sidecar are one session: here there is one sidecar, and so one session, in each data center. Whoever connects continues it."
          : layout.faults ? "Each connection is a session of its own here." : "All connections to one sidecar are one session, unless an app has chosen one for each connection."}
        {!layout.noClient && " The readers of Watch a key have sessions of their own, which end at once and are not listed. Read as a client there to see a session bound."}
      </p>
      {counted.length > 0 && (
        <>
          <table>
            <thead><tr><th scope="col">Data center</th><th scope="col">Bound sessions</th><th scope="col">Sessions</th></tr></thead>
            <tbody>{counted.map((d) => <tr key={d.name}><th scope="row">{d.name}</th><td>{count(d.bound)}</td><td>{count(d.sessions)}</td></tr>)}</tbody>
          </table>
          <p class="note">Which sessions these are is not known here: sidecars export their number only.</p>
        </>
      )}
      {rows.length === 0 ? (counted.length === 0 && <p>{bound === 0 ? "No session is bound." : ""}</p>) : (
        <table class="sessions">
          <thead><tr><th scope="col">Session</th><th scope="col">Reads from</th><th scope="col">Waits for</th><th scope="col">Since</th></tr></thead>
          <tbody>
            {rows.map(({ d, s }) => (
              <tr key={`${d.name} ${s.id}`}>
                <th scope="row">{d.name}<small>{layout.podSessions ? "" : `#${s.id}, `}{boundBy(s)}</small></th>
                <td>{s.rings.map((r) => <RingName key={r} rings={layout.rings} ring={r} />)}</td>
                <td>{s.waitsFor.length === 0 ? "confirmation" : s.waitsFor.map((r) => <RingName key={r} rings={layout.rings} ring={r} />)}</td>
                <td>{s.sinceMs === 0 ? "less than 1 s" : duration(s.sinceMs)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {counted.length === 0 && bound > rows.length && <p class="note">{bound - rows.length} more are not listed.</p>}
    </div>
  );
}

export function Overview({ layout, snapshot, selected, select }: { layout: Layout; snapshot: Snapshot; selected: string; select(name: string): void }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="All data centers">
      <table class="overview">
        <thead>
          <tr>
            <th scope="col">Data center</th><th scope="col">Ring</th><th scope="col">Reads/s</th><th scope="col">Writes/s</th><th scope="col">Read here</th>
            <th scope="col">Bound</th><th scope="col">In flight</th><th scope="col">Stability lag</th><th scope="col">Stable state</th><th scope="col">Parts</th>
          </tr>
        </thead>
        <tbody>
          {snapshot.dataCenters.map((d) => {
            const r = d.rates;
            const reads = r && readsOf(r);
            const up = d.parts.filter((p) => p.state === "serving" || p.state === "following").length;
            return (
              <tr key={d.name} class={d.name === selected ? "selected" : ""}>
                <th scope="row"><button class="plain" onClick={() => select(d.name)}>{d.name}</button></th>
                <td><RingName rings={layout.rings} ring={layout.dataCenters.find((x) => x.name === d.name)!.ring} /></td>
                <td>{rate(reads)}</td>
                <td>{rate(r?.writes)}</td>
                <td>{r ? percent(reads! - r.remote, reads!) : unknown}</td>
                <td>{count(d.bound)}</td>
                <td>{count(d.inFlight)}</td>
                <td>{d.inFlight === 0 && isCutOff(snapshot, d.name) ? "cut off" : duration(d.svLagMs)}</td>
                <td>{duration(d.cutAgeMs)}</td>
                <td class={up < d.parts.length ? "state down" : ""}>{d.elsewhere ? unknown : `${up} of ${d.parts.length} up`}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
