// The connection to the server: the stream of snapshots, and requests.
import type { Fault, HistoryFrame, KeyReading, KeyView, Layout, Mark, Snapshot, WriteTrace } from "./model";

async function request<T>(path: string, body?: unknown): Promise<T> {
  const response = await fetch(path, body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(text.trim() || `${path}: status ${response.status}`);
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

export const getLayout = () => request<Layout>("console/layout");
export const getHistory = () => request<{ frames: HistoryFrame[]; marks: Mark[] }>("console/history");
export const getSnapshot = (atMs: number) => request<Snapshot>(`console/snapshot?at=${Math.round(atMs)}`);
export const getKey = (key: string) => request<KeyView>(`console/key?key=${encodeURIComponent(key)}`);
export const getTrace = (id: number) => request<WriteTrace>(`console/trace?id=${id}`);
export const startTrace = (dataCenter: string, key: string, value: string) => request<WriteTrace>("console/trace", { dataCenter, key, value });
export const getRunbook = (name: string) => request<{ text: string }>(`console/runbook?name=${encodeURIComponent(name)}`);
export const readAsClient = (dataCenter: string, key: string) => request<KeyReading>("console/read", { dataCenter, key });
export const inject = (fault: Fault) => request<void>("fault", fault);

// follow calls the functions with all that the server streams, until the stream breaks: what it was begun with may no longer hold then.
export function follow(on: { snapshot(s: Snapshot): void; marks(m: Mark[]): void; connected(is: boolean): void; ended(): void }): void {
  const source = new EventSource("console/events");
  source.addEventListener("open", () => on.connected(true));
  source.addEventListener("error", () => {
    source.close();
    on.connected(false);
    on.ended();
  });
  source.addEventListener("snapshot", (e) => on.snapshot(JSON.parse(e.data) as Snapshot));
  source.addEventListener("marks", (e) => on.marks(JSON.parse(e.data) as Mark[]));
}
