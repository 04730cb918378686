// The map: data centers, the network between them, and the way of a write that is traced.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { duration, millis, rate, readsOf } from "./format";
import type { DataCenter, Layout, Link, Snapshot, WriteTrace } from "./model";
import { arc, draw, placeLabels, type Drawing } from "./place";
import { Glyph, RingName, ringStyle } from "./rings";

export function healthOf(s: Snapshot, name: string): "" | "warning" | "critical" {
  const of = s.problems.filter((p) => p.dataCenter === name);
  if (of.some((p) => p.severity === "critical")) return "critical";
  return of.length > 0 ? "warning" : "";
}

export function operations(d: DataCenter): number | null {
  return d.rates && readsOf(d.rates) + d.rates.writes;
}

function summary(d: DataCenter): string {
  return d.elsewhere ? "not known here" : `${rate(operations(d))} op/s, cut age ${duration(d.cutAgeMs)}`;
}

interface Props {
  layout: Layout;
  snapshot: Snapshot;
  selected: string;
  select(name: string): void;
  trace: WriteTrace | null;
}

export function MapView({ layout, snapshot, selected, select, trace }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry!.contentRect.width)));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  const drawing = useMemo(() => (width > 0 ? draw(layout, width) : null), [layout, width]);
  const names = layout.dataCenters.map((d) => d.name);
  const dense = width < 600;
  const labels = useMemo(
    () => drawing && placeLabels(drawing, names, new Map(names.map((n) => [n, dense ? n.length * 6.4 : Math.max(n.length * 7.4, 152)])), 14, dense ? 1 : 2),
    [drawing],
  );
  return (
    <figure class="map" aria-label="Map of the data centers">
      <div ref={box} class="mapbox">
        {drawing && labels && (
          <svg width={drawing.width} height={drawing.height} viewBox={`0 0 ${drawing.width} ${drawing.height}`} role="group" aria-label="Data centers">
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
                  onClick={() => select(d.name)}
                  onKeyDown={(e) => {
                    if (e.key === "Enter" || e.key === " ") {
                      e.preventDefault();
                      select(d.name);
                    }
                  }}
                >
                  <g transform={`translate(${p.x},${p.y})`}>
                    <circle class="halo" r={13} />
                    <Glyph style={ringStyle(layout.rings, site.ring)} r={8} />
                    {health && <text class="flag" x={7} y={-6} aria-hidden="true">!</text>}
                  </g>
                </g>
              );
            })}
            <g aria-hidden="true">
              {snapshot.dataCenters.map((d) => {
                const label = labels.get(d.name);
                return label && (
                  <text key={d.name} class="label" x={label.x} y={label.y + 11} text-anchor={label.anchor} onClick={() => select(d.name)}>
                    {d.name}
                    {!dense && <tspan class="facts" x={label.x} dy={14}>{summary(d)}</tspan>}
                  </text>
                );
              })}
            </g>
          </svg>
        )}
      </div>
      <figcaption>
        {layout.rings.map((r) => <RingName key={r} rings={layout.rings} ring={r} />)}
        <span class="hint">Each ring holds one copy of all data. The cut age is the age of the newest moment whose writes are all known to be in every ring.</span>
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
  const from = drawing.at.get(trace.dataCenter);
  if (!from) return null;
  return (
    <g class="trace">
      {trace.rings.map((r) => {
        const to = drawing.at.get(r.dataCenter)!;
        const { path } = arc(from, to);
        const state = r.acknowledgedMs !== null ? "acknowledged" : r.visibleMs !== null ? "visible" : r.receivedMs !== null ? "received" : "sent";
        return (
          <g key={r.ring} class={state}>
            {r.dataCenter !== trace.dataCenter && <path d={path} />}
            <circle cx={to.x} cy={to.y} r={17} />
            {r.visibleMs !== null && <text x={to.x} y={to.y + 31} text-anchor="middle">visible {millis(r.visibleMs)}</text>}
          </g>
        );
      })}
    </g>
  );
}
