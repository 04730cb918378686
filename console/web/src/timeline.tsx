// The last ten minutes: a plot with marks, and a slider to look at an earlier moment.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { markAt } from "./facts";
import { clock, duration } from "./format";
import type { HistoryFrame, Layout, Mark, Point } from "./model";
import { ringStyle } from "./rings";

const figures: Record<string, [string, (p: Point) => number | null]> = {
  stable: ["Age of the stable state, s", (p) => p.cutAgeMs === null ? null : p.cutAgeMs / 1000],
  reads: ["Reads per second", (p) => p.reads],
  writes: ["Writes per second", (p) => p.writes],
  inFlight: ["Writes in flight", (p) => p.inFlight],
  bound: ["Bound sessions", (p) => p.bound],
};

// Figures that are counted have no ticks between whole numbers.
const counted = new Set(["inFlight", "bound"]);
const wholeSteps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000];

const dashes = [[], [6, 3], [2, 2], [8, 3, 2, 3]];

interface Props {
  layout: Layout;
  frames: HistoryFrame[];
  marks: Mark[];
  playAt: number | null; // null: live
  play(atMs: number | null, write?: number): void; // write: the number of the write to show
}

export function Timeline({ layout, frames, marks, playAt, play }: Props) {
  const [figure, setFigure] = useState("stable");
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shown = useRef({ marks, playAt, play, last: 0 });
  shown.current = { marks, playAt, play, last: frames.at(-1)?.atMs ?? 0 };
  const value = figures[figure]![1];
  const data = useMemo<uPlot.AlignedData>(
    () => [frames.map((f) => f.atMs / 1000), ...layout.dataCenters.map((_, i) => frames.map((f) => (f.points[i] ? value(f.points[i]!) : null)))],
    [frames, figure],
  );
  useEffect(() => {
    // Colors are looked up whenever the plot is drawn: they change with the color scheme.
    const style = getComputedStyle(box.current!);
    const color = (name: string) => style.getPropertyValue(name).trim();
    const [faint, line] = [() => color("--faint"), () => color("--line")];
    const seen = new Map<string, number>();
    const u = new uPlot(
      {
        width: box.current!.clientWidth,
        height: 120,
        legend: { show: false },
        cursor: { show: false },
        padding: [8, 12, 0, 0],
        scales: { y: { range: (_u, _min, max) => [0, Math.max(max * 1.1, 1)] } },
        axes: [
          { stroke: faint, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui", size: 24, space: 84,
            values: (_u, ticks) => ticks.map((t) => clock(t * 1000)) },
          { stroke: faint, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui", size: 56,
            ...(counted.has(figure) ? { incrs: wholeSteps } : {}) },
        ],
        series: [
          {},
          ...layout.dataCenters.map((d) => {
            const nth = seen.get(d.ring) ?? 0;
            seen.set(d.ring, nth + 1);
            return { label: d.name, stroke: () => color(`--ring${ringStyle(layout.rings, d.ring)}`), width: 1.4, dash: dashes[nth % dashes.length]!, points: { show: false } };
          }),
        ],
        hooks: { draw: [(u) => drawMarks(u, shown.current.marks, shown.current.playAt, color("--text"), color("--critical"))] },
      },
      data,
      box.current!,
    );
    plot.current = u;
    u.over.addEventListener("click", (e) => {
      const at = u.posToVal(e.offsetX, "x") * 1000;
      shown.current.play(at >= shown.current.last - 1000 ? null : at);
    });
    const observer = new ResizeObserver(() => u.setSize({ width: box.current!.clientWidth, height: 120 }));
    observer.observe(box.current!);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => u.redraw(false);
    scheme.addEventListener("change", redraw);
    return () => {
      scheme.removeEventListener("change", redraw);
      observer.disconnect();
      u.destroy();
    };
  }, [layout, figure]);
  useEffect(() => plot.current?.setData(data), [data, marks, playAt]);

  const [first, last] = [frames[0]?.atMs ?? 0, frames.at(-1)?.atMs ?? 0];
  const events = useMemo(() => marks.toReversed(), [marks]);
  const [focused, setFocused] = useState(0);
  const current = Math.min(focused, events.length - 1);
  // The list follows the time shown.
  const list = useRef<HTMLOListElement>(null);
  const at = playAt === null ? -1 : markAt(events, playAt);
  useEffect(() => {
    const row = list.current?.children[at] as HTMLElement | undefined;
    if (row) list.current!.scrollTop = row.offsetTop - (list.current!.clientHeight - row.offsetHeight) / 2;
    else if (list.current) list.current.scrollTop = playAt === null ? 0 : list.current.scrollHeight; // live, or before all events
  }, [at, playAt === null]);
  return (
    <section class="timeline" aria-label="Last ten minutes">
      <div class="controls">
        <label>Plot <select value={figure} onChange={(e) => setFigure(e.currentTarget.value)}>{Object.entries(figures).map(([id, [name]]) => <option key={id} value={id}>{name}</option>)}</select></label>
        <button class={playAt === null ? "" : "primary"} aria-pressed={playAt === null} onClick={() => play(null)}>Live</button>
        <span class="hint">One line for each data center, in the color of its ring. Vertical lines are events. Click to see an earlier moment.</span>
      </div>
      <div ref={box} class="plot" role="img" aria-label={`${figures[figure]![0]} of each data center over the last ten minutes`} />
      <div class="slider">
        <input type="range" aria-label="Time shown" aria-valuetext={playAt === null ? "live" : clock(playAt)} min={first} max={last} step={1000} value={playAt ?? last}
          onInput={(e) => {
            const at = Number(e.currentTarget.value);
            play(at >= last - 1000 ? null : at);
          }} />
      </div>
      {events.length > 0 && (
        <ol ref={list} class="marks" aria-label="Events, the newest first">
          {events.map((m, i) => (
            <li key={`${m.atMs} ${m.text}`} class={i === at ? `${m.kind} at` : m.kind} aria-current={i === at ? "time" : undefined}>
              <button class="plain" title="Show the state just after this" tabIndex={i === current ? 0 : -1} onFocus={() => setFocused(i)}
                onClick={() => play(Math.min(m.atMs + 1100, last), m.trace)}
                onKeyDown={(e) => {
                  const step = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0;
                  const next = e.currentTarget.closest("ol")!.querySelectorAll("button")[i + step];
                  if (step === 0 || !next) return;
                  e.preventDefault();
                  next.focus();
                }}>
                <time>{clock(m.atMs)}</time> {m.text}
              </button>
            </li>
          ))}
        </ol>
      )}
      {first > 0 && <p class="hint">Kept: {duration(last - first)} of at most 10 minutes.</p>}
    </section>
  );
}

function drawMarks(u: uPlot, marks: Mark[], playAt: number | null, text: string, fault: string) {
  const { ctx, bbox } = u;
  const line = (ms: number, color: string, width: number, dash: number[]) => {
    const x = Math.round(u.valToPos(ms / 1000, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.strokeStyle = color;
    ctx.lineWidth = width * devicePixelRatio;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  };
  ctx.save();
  for (const m of marks) line(m.atMs, m.kind === "fault" ? fault : text, 1, m.kind === "fault" ? [] : [3, 4]);
  if (playAt !== null) line(playAt, text, 2, []);
  ctx.restore();
}
