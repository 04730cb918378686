// The map: data centers, the network between them, and the way of a write that is traced.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { healthOf, operations } from "./facts";
import { millis, rate } from "./format";
import type { DataCenter, Layout, Link, Snapshot, WriteTrace } from "./model";
import { arc, draw, placeLabels, type Drawing, type Others } from "./place";
import { Glyph, RingName, ringStyle } from "./rings";

function summary(d: DataCenter): string {
  if (d.elsewhere) return "not known here";
  const more = d.bound ? `, ${d.bound} bound` : d.inFlight ? `, ${d.inFlight} in flight` : "";
  return `${rate(operations(d))} op/s${more}`;
}

interface Props {
  layout: Layout;
  snapshot: Snapshot;
  selected: string;
  select(name: string, keyboard?: boolean): void;
  trace: WriteTrace | null;
  stale: boolean; // the server does not answer
}

const touchRadius = 24;

export function MapView({ layout, snapshot, selected, select, trace, stale }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry!.contentRect.width)));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  const drawing = useMemo(() => (width > 0 ? draw(layout, width) : null), [layout, width]);
  const names = layout.dataCenters.map((d) => d.name);
  const dense = width < 640;
  const widths = new Map(names.map((n) => [n, dense ? n.length * 6.8 : Math.max(n.length * 7.4, 112)]));
  const labels = useMemo(() => drawing && placeLabels(drawing, names, widths, 14, dense ? 1 : 2), [drawing]);
  // Data centers may be closer to each other than a finger is wide: a touch means the nearest one.
  const choose = (e: MouseEvent) => {
    const box = (e.currentTarget as Element).getBoundingClientRect();
    let [nearest, least] = ["", touchRadius];
    for (const [n, p] of drawing!.at) {
      const far = Math.hypot(p.x - (e.clientX - box.left), p.y - (e.clientY - box.top));
      if (far < least) [nearest, least] = [n, far];
    }
    if (nearest) select(nearest);
  };
  return (
    <figure class={stale ? "map stale" : "map"} aria-label="Map of the data centers">
      <div ref={box} class="mapbox">
        {drawing && labels && (
          <svg width={drawing.width} height={drawing.height} viewBox={`0 0 ${drawing.width} ${drawing.height}`} role="group" aria-label="Data centers" onClick={choose}>
            {drawing.outline && <path class="land" d={drawing.outline} />}
            {snapshot.links.map((l) => <LinkLine key={l.a + " " + l.b} link={l} drawing={drawing} active={l.a === selected || l.b === selected} />)}
            {trace && <TraceArcs trace={trace} drawing={drawing} />}
            {snapshot.dataCenters.map((d) => {
              const site = layout.dataCenters.find((s) => s.name === d.name)!;
              const p = drawing.at.get(d.name)!;
              const health = healthOf(snapshot, d.name);
              return (
                <g
                  key={d.name}
                  class={`site ${health} ${d.elsewhere ? "elsewhere" : ""} ${d.name === selected ? "selected" : ""}`}
                  data-site={d.name}
                  data-health={health || (d.elsewhere ? "unknown" : "well")}
                  role="button"
                  tabindex={0}
                  aria-pressed={d.name === selected}
                  aria-label={`${d.name}, ring ${site.ring}, ${health || (d.elsewhere ? "unknown" : "no problem")}, ${summary(d)}`}
                  onKeyDown={(e) => {
                    if (e.key === "Enter" || e.key === " ") {
                      e.preventDefault();
                      select(d.name, true);
                    }
                  }}
                >
                  <g transform={`translate(${p.x},${p.y})`}>
                    <circle class="halo" r={13} />
                    {!!d.bound && <circle class="bound" r={trace?.rings.some((r) => r.dataCenter === d.name) ? 21 : 16.5} data-bound={d.name} />}
                    <Glyph style={ringStyle(layout.rings, site.ring)} r={8} />
                    {health && <text class="flag" y={5} text-anchor="middle" aria-hidden="true">!</text>}
                  </g>
                </g>
              );
            })}
            <g aria-hidden="true">
              {snapshot.dataCenters.map((d) => {
                const label = labels.get(d.name);
                return label && (
                  <text key={d.name} class="label" x={label.x} y={label.y + 11} text-anchor={label.anchor} onClick={(e) => { e.stopPropagation(); select(d.name); }}>
                    {d.name}
                    {!dense && <tspan class="facts" x={label.x} dy={14}>{summary(d)}</tspan>}
                  </text>
                );
              })}
            </g>
            {trace && <TraceTimes trace={trace} drawing={drawing} others={{ labels, widths, height: dense ? 14 : 28 }} />}
          </svg>
        )}
      </div>
      <figcaption>
        {layout.rings.map((r) => <RingName key={r} rings={layout.rings} ring={r} />)}
        <span class="ringname"><svg width="16" height="16" viewBox="-8 -8 16 16" aria-hidden="true"><circle class="boundmark" r={6} /></svg>has bound sessions</span>
        <span class="note">Each ring holds one copy of all data. Lines are the network; a number is the round trip in ms. A traced write: dotted, on its way; orange, visible to readers; green, acknowledged.</span>
      </figcaption>
    </figure>
  );
}

function LinkLine({ link, drawing, active }: { link: Link; drawing: Drawing; active: boolean }) {
  const { path, middle } = arc(drawing.at.get(link.a)!, drawing.at.get(link.b)!);
  const cut = link.cutAB || link.cutBA;
  const slow = !cut && link.roundTripMs !== null && link.declaredMs > 0 && link.roundTripMs > 2 * link.declaredMs + 100;
  return (
    <g class={`link ${active ? "active" : ""} ${cut ? "cut" : slow ? "slow" : ""}`} data-link={`${link.a} ${link.b}`} data-cut={cut ? "yes" : "no"}>
      <path d={path} />
      {cut && <path class="cross" d={`M${middle.x - 4},${middle.y - 4}l8,8m0,-8l-8,8`} />}
      {active && !cut && <text x={middle.x} y={middle.y - 2} text-anchor="middle">{link.roundTripMs === null ? "?" : Math.round(link.roundTripMs)}</text>}
    </g>
  );
}

function TraceArcs({ trace, drawing }: { trace: WriteTrace; drawing: Drawing }) {
  const origin = trace.acceptedIn ?? "";
  const from = drawing.at.get(origin); // unknown until a log has it
  return (
    <g class="trace" data-origin={origin}>
      {trace.rings.map((r) => {
        const to = drawing.at.get(r.dataCenter)!;
        const state = r.acknowledgedMs !== null ? "acknowledged" : r.visibleMs !== null ? "visible" : r.receivedMs !== null ? "received" : "sent";
        return (
          <g key={r.ring} class={state}>
            {from && r.dataCenter !== origin && <path d={arc(from, to).path} />}
            <circle cx={to.x} cy={to.y} r={17} />
          </g>
        );
      })}
    </g>
  );
}

// TraceTimes says when a write was visible in each ring. It is drawn above all else.
function TraceTimes({ trace, drawing, others }: { trace: WriteTrace; drawing: Drawing; others: Others }) {
  const seen = trace.rings.filter((r) => r.visibleMs !== null && drawing.at.has(r.dataCenter));
  const places = placeLabels(drawing, seen.map((r) => r.dataCenter), new Map(seen.map((r) => [r.dataCenter, 92])), 14, 1, others);
  return (
    <g class="trace" aria-hidden="true">
      {seen.map((r) => {
        const at = places.get(r.dataCenter);
        return at && <text key={r.ring} x={at.x} y={at.y + 11} text-anchor={at.anchor}>visible {millis(r.visibleMs)}</text>;
      })}
    </g>
  );
}
