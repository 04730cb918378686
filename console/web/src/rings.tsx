// Rings are told apart by color and by shape. The colors are those of Okabe and Ito, which color-blind people can tell apart.

const shapes = ["circle", "square", "triangle", "diamond", "hexagon", "plus"] as const;
const styles = 6;

export function ringStyle(rings: string[], ring: string): number {
  return Math.max(rings.indexOf(ring), 0) % styles;
}

function points(shape: (typeof shapes)[number], r: number): string {
  const corners = { circle: 0, square: 4, triangle: 3, diamond: 4, hexagon: 6, plus: 8 }[shape];
  const turn = shape === "square" ? Math.PI / 4 : 0;
  return Array.from({ length: corners }, (_, i) => {
    const angle = turn - Math.PI / 2 + (2 * Math.PI * i) / corners;
    const radius = shape === "plus" && i % 2 === 1 ? r * 0.5 : r * (shape === "triangle" ? 1.25 : 1.15);
    return `${(radius * Math.cos(angle)).toFixed(2)},${(radius * Math.sin(angle)).toFixed(2)}`;
  }).join(" ");
}

export function Glyph({ style, r }: { style: number; r: number }) {
  const shape = shapes[style]!;
  return shape === "circle" ? <circle r={r} class={`ring${style}`} /> : <polygon points={points(shape, r)} class={`ring${style}`} />;
}

export function RingName({ rings, ring }: { rings: string[]; ring: string }) {
  return (
    <span class="ringname">
      <svg width="14" height="14" viewBox="-8 -8 16 16" aria-hidden="true">
        <Glyph style={ringStyle(rings, ring)} r={6} />
      </svg>
      {ring}
    </span>
  );
}
