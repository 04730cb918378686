// What the server sends: the types of package console. A null is a fact that is unknown.

export interface Layout {
  title: string;
  version: string;
  rings: string[];
  dataCenters: Site[];
  faults: boolean;
  podSessions?: boolean; // all connections to a data center are one session
  noClient?: string; // why keys can neither be written nor read here
  runbookBase: string;
  intervalMs: number;
  factsAgeMs: number;
}

export interface Site {
  name: string;
  ring: string;
  region?: string;
  latitude?: number;
  longitude?: number;
  address?: string;
}

export interface Snapshot {
  atMs: number;
  epoch: number;
  dataCenters: DataCenter[];
  links: Link[];
  problems: Problem[];
}

export interface DataCenter {
  name: string;
  elsewhere?: string; // why nothing is known of it here
  rates: Rates | null;
  connections: number | null;
  sessions: number | null;
  bound: number | null;
  boundSessions: Session[] | null; // null: it is not known which ones are bound
  inFlight: number | null;
  bufferBytes: number | null;
  bufferLimitBytes: number | null;
  svLagMs: number | null;
  cutAgeMs: number | null;
  skewMs: number | null;
  ringLagMs: Record<string, number | null>;
  cacheEntries: number | null;
  cacheBytes: number | null;
  homes: Homes | null; // null: unknown, or there are none
  addedDelayMs?: number; // by a fault, to each message from and to here
  parts: Part[];
}

export interface Homes {
  keys: number;
  bytes: number;
  waiting: number; // reads
}

export interface Rates {
  own: number;
  near: number;
  home: number;
  cache: number;
  local: number;
  remote: number;
  writes: number;
  failed: number;
}

export interface Session {
  id: number;
  reads: number;
  oldestMs: number;
  oldestFrom: string; // the data center that has accepted it
  oldestSlot: number;
  oldestKey?: string; // if it is known
  rings: string[];
  waitsFor: string[];
  incompleteWrites: number;
  sinceMs: number;
}

export interface Part {
  name: string;
  kind: string;
  index: number;
  member?: number;
  state: "serving" | "following" | "not serving" | "hangs" | "down";
  version?: string;
  sinceMs: number | null;
}

export interface Link {
  a: string;
  b: string;
  roundTripMs: number | null;
  declaredMs: number;
  bytesPerSecond: number | null;
  cutAB?: boolean;
  cutBA?: boolean;
}

export interface Problem {
  severity: "warning" | "critical";
  dataCenter?: string;
  other?: string; // the other end of a link
  part?: string;
  text: string;
  runbook: string;
}

export interface Mark {
  atMs: number;
  kind: "fault" | "heal" | "change" | "write" | "read" | "session";
  text: string;
  trace?: number; // of a write
}

export interface Point {
  reads: number | null;
  writes: number | null;
  bound: number | null;
  inFlight: number | null;
  cutAgeMs: number | null;
}

export interface HistoryFrame {
  atMs: number;
  points: Point[];
}

export interface KeyView {
  key: string;
  slot: number;
  atMs: number;
  rings: KeyInRing[];
  readers: KeyReading[];
}

export interface KeyInRing {
  ring: string;
  dataCenter: string;
  shard: number;
  version: string;
  ageMs: number;
  value: string;
  deleted?: boolean;
  unknown?: string;
}

export interface KeyReading {
  dataCenter: string;
  version: string;
  value: string;
  deleted?: boolean;
  source: string;
  stable: boolean;
  rings: string[];
  tookMs: number;
  unknown?: string;
}

export interface WriteTrace {
  id: number;
  key: string;
  slot: number;
  dataCenter: string;
  startedMs: number;
  acceptedMs: number | null;
  acceptedIn?: string; // the data center whose log has it: the origin
  version: string;
  rings: TraceRing[];
  caches: { dataCenter: string; index: number; ms: number }[];
  completeMs: number | null;
  error?: string;
}

export interface TraceRing {
  ring: string;
  dataCenter: string;
  shard: number;
  receivedMs: number | null;
  visibleMs: number | null;
  acknowledgedMs: number | null;
}

// Fault is the body of POST /fault.
export interface Fault {
  kind: string;
  from?: string;
  to?: string;
  dc?: string;
  part?: string;
  index?: number;
  member?: number;
  addMs?: number;
}
