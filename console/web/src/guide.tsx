// The first steps: what to do to see a session bound and released.
import { useEffect, useState } from "preact/hooks";
import { boundIn, calmAfter, stepOf, type Calm, type Roles, type Step } from "./facts";
import { list } from "./format";
import type { Fault, KeyReading, Snapshot, WriteTrace } from "./model";
import { readAsClient, startTrace } from "./server";
import { useTrace } from "./write";

const key = "guide:1";

interface Props {
  snapshot: Snapshot; // of now
  roles: Roles;
  past: boolean; // the rest of the page shows an earlier moment
  disabled: boolean;
  trace: WriteTrace | null;
  setTrace(t: WriteTrace): void;
  watch(key: string): void;
  hurt(f: Fault): Promise<boolean>;
  show(tab: "dc" | "trace" | "sessions", dataCenter: string): void;
  close(): void;
}

const numbered: Step[] = ["cut", "write", "read", "heal"];

export function Guide({ snapshot, roles, past, disabled, trace, setTrace, watch, hurt, show, close }: Props) {
  const { victim, ring, writer, reader } = roles;
  const [written, setWritten] = useState<WriteTrace | null>(null);
  const [rounds, setRounds] = useState(1);
  const [reading, setReading] = useState<KeyReading | null>(null);
  const [healed, setHealed] = useState(false);
  const [seenBound, setSeenBound] = useState(false);
  const [released, setReleased] = useState(false);
  const [calm, setCalm] = useState<Calm | null>(null);
  const [over, setOver] = useState(false); // something else has happened since
  const [error, setError] = useState("");
  const followed = trace?.id === written?.id; // by the page
  useTrace(followed ? null : written, setWritten);
  const write = followed ? trace : written;
  const step = stepOf(snapshot, roles, write, reading, healed);
  const bound = boundIn({ ...snapshot, dataCenters: snapshot.dataCenters.filter((d) => d.name === reader) }) > 0;
  useEffect(() => {
    if (step === "end") setHealed(true);
    if (reading && bound) setSeenBound(true);
    if (step === "end" && !bound && (seenBound || write?.completeMs != null)) setReleased(true);
  }, [step, reading, bound, seenBound, write?.completeMs]);
  useEffect(() => {
    if (!released || over) return;
    const is = calmAfter(calm, snapshot);
    setCalm(is);
    setOver(is === null);
  }, [released, snapshot.atMs]);
  const again = () => {
    setWritten(null);
    setReading(null);
    setHealed(false);
    setSeenBound(false);
    setReleased(false);
    setCalm(null);
    setOver(false);
    setError("");
  };
  const run = (act: () => Promise<unknown>) => async () => {
    setError("");
    try {
      await act();
    } catch (e) {
      setError((e as Error).message);
    }
  };
  const origin = write?.acceptedIn && write.acceptedIn !== writer ? ` ${write.acceptedIn} has accepted it, as no coordinator of ${writer} did.` : "";
  const steps = {
    cut: {
      text: <>Cut off {victim}, the only data center of ring {ring}. Nothing gets in or out.</>,
      label: `Cut off ${victim}`,
      act: async () => {
        show("dc", victim);
        await hurt({ kind: "cut", from: victim, to: "*" });
      },
    },
    write: {
      text: <>{victim} is cut off: see the map. Now write a key in {writer}. Its client gets OK at once, and the write goes to every ring it can reach.</>,
      label: `Write in ${writer}`,
      act: async () => {
        show("trace", writer);
        const t = await startTrace(writer, key, `hello ${rounds}`);
        setRounds(rounds + 1);
        setTrace(t);
        setWritten(t);
        watch(key);
      },
    },
    read: {
      text: <>The client has its OK. The write is not complete until {ring} has it: see <i>Trace a write</i>.{origin} Now read it as a client of {reader}.</>,
      label: `Read in ${reader}`,
      act: async () => {
        const r = await readAsClient(reader, key);
        if (r.unknown) throw new Error(`The read failed: ${r.unknown}. Try again.`);
        if (!r.version || (write?.version && r.version !== write.version)) throw new Error(`The write has not reached ${reader} yet. Try again.`);
        setReading(r);
        show("sessions", reader);
      },
    },
    heal: {
      text: <>The client has read a value that {ring} does not have yet. So its session is <b>bound</b>: it reads from {list(reading?.rings ?? [])} only, as elsewhere it could see an older state. Now heal the network.</>,
      label: "Heal the network",
      act: async () => hurt({ kind: "heal" }),
    },
    late: {
      text: <>The network was healed before the key was read, so {ring} gets the write, and a reader is not bound for long. Start again, and read while {victim} is cut off.</>,
      label: "Start again",
      act: async () => again(),
    },
  };
  const now = step === "end" ? null : steps[step];
  const title = step === "end" ? (released ? "The four steps are done" : "Wait for the last ring") : step === "late" ? "The network was healed too early" : `Try it: step ${numbered.indexOf(step) + 1} of ${numbered.length}`;
  return (
    <section class="guide" aria-label="First steps" data-step={step} data-over={over ? "yes" : "no"}>
      <h2>{title}{past && <small> (now, not at the time shown)</small>}</h2>
      <p role="status">{now ? now.text : released ? !over && <>The write of <b>{key}</b> came to every ring, and the session that had read it was <b>released</b>: from then on it might read from every ring again.</> : <>The session is released when {ring} has the write of {key}.</>}</p>
      {(error || write?.error) && <p class="error" role="alert">{error || write?.error}</p>}
      <p class="actions">
        {now ? <button class="primary" disabled={disabled} onClick={run(now.act)}>{now.label}</button> : <button onClick={again}>Start again</button>}
        <button onClick={close}>Hide</button>
      </p>
    </section>
  );
}
