// Figures as text. What is unknown reads "unknown", never 0.
import type { Rates } from "./model";

export const unknown = "unknown";

export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return unknown;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  return `${Math.floor(s / 60)} min ${s % 60} s`;
}

export function millis(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "not yet";
  if (ms >= 1000) return duration(ms);
  return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

export function count(n: number | null | undefined): string {
  return n === null || n === undefined ? unknown : Math.round(n).toLocaleString("en");
}

export function rate(n: number | null | undefined): string {
  if (n === null || n === undefined) return unknown;
  return n > 0 && n < 10 ? n.toFixed(1) : Math.round(n).toLocaleString("en");
}

export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined) return unknown;
  if (n < 1024) return `${Math.round(n)} B`;
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / 1024 / 1024).toFixed(1)} MiB`;
}

export function percent(part: number, whole: number): string {
  return whole > 0 ? `${Math.round((100 * part) / whole)} %` : "no reads";
}

// list joins names: "a", "a and b", "a, b and c".
export function list(names: string[]): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

export function clock(ms: number): string {
  return new Date(ms).toLocaleTimeString("en-GB");
}

// readsOf returns the reads per second, wherever they were answered.
export function readsOf(r: Rates): number {
  return r.own + r.near + r.home + r.cache + r.local + r.remote;
}
