// Where data centers and their labels are drawn.
import { geoNaturalEarth1, geoPath } from "d3-geo";
import { feature } from "topojson-client";
import type { Topology } from "topojson-specification";
import land from "world-atlas/land-110m.json";
import type { Layout } from "./model";

export interface Point {
  x: number;
  y: number;
}

export interface Drawing {
  width: number;
  height: number;
  outline: string | null; // of the continents
  at: Map<string, Point>;
}

const outline = feature(land as unknown as Topology, "land");
// The frame of the map leaves out the polar regions.
const frame = { type: "MultiPoint" as const, coordinates: [[-170, 68], [175, 68], [-170, -46], [175, -46], [0, 70], [0, -48]] };

// draw places the data centers on a map, or on a circle, ring by ring, if the place of one is unknown.
export function draw(layout: Layout, width: number): Drawing {
  const height = Math.round(Math.max(width * 0.45, 220));
  const at = new Map<string, Point>();
  if (layout.dataCenters.every((d) => d.latitude !== undefined && d.longitude !== undefined)) {
    const projection = geoNaturalEarth1().rotate([-8, 0]).fitExtent([[8, 8], [width - 8, height - 8]], frame);
    for (const d of layout.dataCenters) {
      const [x, y] = projection([d.longitude!, d.latitude!])!;
      at.set(d.name, { x, y });
    }
    return { width, height, outline: geoPath(projection.clipExtent([[0, 0], [width, height]]))(outline), at };
  }
  const sorted = layout.rings.flatMap((r) => layout.dataCenters.filter((d) => d.ring === r));
  sorted.forEach((d, i) => {
    const angle = (2 * Math.PI * i) / sorted.length - Math.PI / 2;
    at.set(d.name, { x: width / 2 + width * 0.33 * Math.cos(angle), y: height / 2 + height * 0.38 * Math.sin(angle) });
  });
  return { width, height, outline: null, at };
}

export interface Label {
  x: number;
  y: number;
  anchor: "start" | "end" | "middle";
}

interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

// Others are labels that are there already.
export interface Others {
  labels: Map<string, Label>;
  widths: Map<string, number>;
  height: number;
}

// placeLabels finds places for labels of some lines where they cover neither each other, nor other labels, nor a data center. A label without a
// place is left out.
export function placeLabels(d: Drawing, names: string[], widths: Map<string, number>, lineHeight: number, lines: number, others?: Others): Map<string, Label> {
  const taken: Box[] = [...d.at.values()].map((p) => ({ left: p.x - 8, right: p.x + 8, top: p.y - 8, bottom: p.y + 8 }));
  for (const [name, l] of others?.labels ?? []) {
    const width = others!.widths.get(name)!;
    const left = l.x - { start: 0, middle: 0.5, end: 1 }[l.anchor] * width;
    taken.push({ left, right: left + width, top: l.y, bottom: l.y + others!.height });
  }
  const labels = new Map<string, Label>();
  const h = lines * lineHeight;
  for (const name of names) {
    const p = d.at.get(name)!;
    const w = widths.get(name)!;
    const places: [Label, number][] = [
      [{ x: p.x + 20, y: p.y - h / 2, anchor: "start" }, p.x + 20],
      [{ x: p.x - 20, y: p.y - h / 2, anchor: "end" }, p.x - 20 - w],
      [{ x: p.x, y: p.y + 17, anchor: "middle" }, p.x - w / 2],
      [{ x: p.x, y: p.y - 17 - h, anchor: "middle" }, p.x - w / 2],
      [{ x: p.x - 11, y: p.y + 4, anchor: "end" }, p.x - 11 - w],
      [{ x: p.x - 11, y: p.y - h - 4, anchor: "end" }, p.x - 11 - w],
      [{ x: p.x + 11, y: p.y + 4, anchor: "start" }, p.x + 11],
      [{ x: p.x + 11, y: p.y - h - 4, anchor: "start" }, p.x + 11],
      [{ x: p.x + 20, y: p.y + 20, anchor: "end" }, p.x + 20 - w],
      [{ x: p.x + 20, y: p.y - 20 - h, anchor: "end" }, p.x + 20 - w],
      [{ x: p.x, y: p.y + 30, anchor: "middle" }, p.x - w / 2],
      [{ x: p.x, y: p.y - 30 - h, anchor: "middle" }, p.x - w / 2],
    ];
    for (const [label, left] of places) {
      const box = { left, right: left + w, top: label.y, bottom: label.y + h };
      const inside = box.left >= 2 && box.right <= d.width - 2 && box.top >= 2 && box.bottom <= d.height - 2;
      if (inside && !taken.some((t) => t.left < box.right && box.left < t.right && t.top < box.bottom && box.top < t.bottom)) {
        taken.push(box);
        labels.set(name, label);
        break;
      }
    }
  }
  return labels;
}

// arc returns a curve between two points, and its middle.
export function arc(a: Point, b: Point): { path: string; middle: Point } {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const bend = Math.min(0.16, 60 / (Math.hypot(dx, dy) + 1));
  const c = { x: (a.x + b.x) / 2 + dy * bend * Math.sign(dx || 1), y: (a.y + b.y) / 2 - Math.abs(dx) * bend };
  return {
    path: `M${a.x.toFixed(1)},${a.y.toFixed(1)}Q${c.x.toFixed(1)},${c.y.toFixed(1)} ${b.x.toFixed(1)},${b.y.toFixed(1)}`,
    middle: { x: (a.x + 2 * c.x + b.x) / 4, y: (a.y + 2 * c.y + b.y) / 4 },
  };
}
