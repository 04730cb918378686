// The first steps: what to do to see a session bound and released.
import { useEffect, useState } from "preact/hooks";
import type { Roles } from "./facts";
import { list } from "./format";
import type { Fault, KeyReading, Layout, Snapshot, WriteTrace } from "./model";
import { boundIn, isCutOff } from "./facts";
import { readAsClient, startTrace } from "./server";

const key = "guide:1";

interface Props {
  layout: Layout;
  snapshot: Snapshot;
  roles: Roles;
  disabled: boolean;
  trace: WriteTrace | null;
  setTrace(t: WriteTrace): void;
  watch(key: string): void;
  hurt(f: Fault): Promise<boolean>;
  show(tab: "dc" | "trace" | "sessions", dataCenter: string): void;
  close(): void;
}

export function Guide({ layout, snapshot, roles, disabled, trace, setTrace, watch, hurt, show, close }: Props) {
  const { victim, ring, writer, reader } = roles;
  const [step, setStep] = useState(0);
  const [reading, setReading] = useState<KeyReading | null>(null);
  const [error, setError] = useState("");
  const run = (act: () => Promise<boolean>) => async () => {
    setError("");
    try {
      if (await act()) setStep((n) => n + 1);
    } catch (e) {
      setError((e as Error).message);
    }
  };
  const steps = [
    {
      text: <>Cut off {victim}, the only data center of ring {ring}. Nothing gets in or out.</>,
      label: `Cut off ${victim}`,
      act: async () => {
        show("dc", victim);
        return hurt({ kind: "cut", from: victim, to: "*" });
      },
    },
    {
      text: <>{victim} is cut off: see the map. Now write a key in {writer}. Its client gets OK at once, and the write goes to every ring it can reach.</>,
      label: `Write in ${writer}`,
      act: async () => {
        show("trace", writer);
        setTrace(await startTrace(writer, key, new Date().toLocaleTimeString("en-GB")));
        watch(key);
        return true;
      },
    },
    {
      text: <>The write waits for {ring}: see <i>Trace a write</i>. Now read it as a client of {reader}.</>,
      label: `Read in ${reader}`,
      act: async () => {
        const r = await readAsClient(reader, key);
        if (r.unknown) throw new Error(`The read failed: ${r.unknown}. Try again.`);
        if (!r.version || (trace?.version && r.version !== trace.version)) throw new Error(`The write has not reached ${reader} yet. Try again.`);
        setReading(r);
        show("sessions", reader);
        return true;
      },
    },
    {
      text: reading && reading.rings.length < layout.rings.length
        ? <>The client has read a value that {ring} does not have yet. So its session is <b>bound</b>: it reads from {list(reading.rings)} only, as elsewhere it could see an older state. Now heal the network.</>
        : <>The client has read a value that every ring has, so its session is not bound: the network was healed before. Heal what is left, and start again.</>,
      label: "Heal the network",
      act: async () => hurt({ kind: "heal" }),
    },
  ];
  const now = steps[step];
  const isReleased = !isCutOff(snapshot, victim) && boundIn(snapshot) === 0;
  const [released, setReleased] = useState(false);
  useEffect(() => {
    if (!now && isReleased) setReleased(true);
  }, [!now, isReleased]);
  return (
    <section class="guide" aria-label="First steps">
      <h2>{now ? `Try it: step ${step + 1} of ${steps.length}` : "That is all"}</h2>
      <p role="status">{now ? now.text : released ? <>{ring} has caught up: the write is in every ring, and the session is <b>released</b>. It reads from everywhere again.</> : <>The network is healed. The session is released when {ring} has the write.</>}</p>
      {error && <p class="error" role="alert">{error}</p>}
      <p class="actions">
        {now ? <button class="primary" disabled={disabled} onClick={run(now.act)}>{now.label}</button> : <button onClick={() => { setStep(0); setReading(null); setReleased(false); }}>Start again</button>}
        <button onClick={close}>Hide</button>
      </p>
    </section>
  );
}
