// What to do about a problem: a section of the runbooks.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { remedyOf } from "./facts";
import type { Fault, Problem, Snapshot } from "./model";
import { getRunbook } from "./server";

interface Props {
  problem: Problem;
  snapshot: Snapshot;
  base: string;
  faults: boolean; // the deployment is one whose faults this page injects
  hurt: ((f: Fault) => Promise<boolean>) | null; // null: not now
  close(): void;
}

export function Runbook({ problem, snapshot, base, faults, hurt, close }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [name, setName] = useState(problem.runbook);
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  useEffect(() => {
    dialog.current!.showModal();
  }, []);
  useEffect(() => {
    let ended = false;
    getRunbook(name).then((r) => {
      if (ended) return;
      setText(r.text);
      setError("");
      dialog.current?.scrollTo(0, 0);
    }, (e: Error) => !ended && setError(e.message));
    return () => { ended = true; };
  }, [name]);
  const remedy = remedyOf(snapshot, problem);
  const act = async () => {
    if (await hurt!(remedy.fault!)) close();
  };
  return (
    <dialog ref={dialog} class="runbook" aria-labelledby="runbook-name" onClose={close}>
      <h2 id="runbook-name">{name}</h2>
      {faults && name === problem.runbook && (
        <div class="here">
          <h3>On this machine</h3>
          <p>{problem.text}</p>
          <p>{remedy.text}</p>
          {remedy.fault && <p class="actions"><button class="primary" disabled={!hurt} onClick={() => void act()}>{remedy.label}</button>{!hurt && <span class="note">Go back to live first.</span>}</p>}
        </div>
      )}
      {faults && <h3>In Kubernetes</h3>}
      <div class="text">{blocksOf(text, base, name, setName)}</div>
      {error && <p class="error" role="alert">{error}</p>}
      <p class="actions">
        <button class={faults && remedy.fault ? "" : "primary"} onClick={close}>Close</button>
        {name !== problem.runbook && <button onClick={() => setName(problem.runbook)}>Back to {problem.runbook}</button>}
        <a href={base + name.toLowerCase()} target="_blank" rel="noreferrer">All runbooks</a>
      </p>
    </dialog>
  );
}

// blocksOf shows the Markdown that runbooks use: paragraphs, lists, tables, and blocks of code.
function blocksOf(text: string, base: string, name: string, open: (name: string) => void): ComponentChildren {
  const inline = (piece: string) => inlineOf(piece, base, name, open);
  return text.split(/^```.*$/m).map((part, i) => {
    if (i % 2 === 1) return <pre key={i} tabIndex={0}>{part.trim()}</pre>;
    return part.split(/\n\n+/).filter((b) => b.trim()).map((b, j) => {
      if (/^\s*\* /.test(b)) return <ul key={j}>{b.trim().split(/^\* /m).filter((item) => item).map((item, k) => <li key={k}>{inline(item)}</li>)}</ul>;
      if (/^\s*\| /.test(b)) return <table key={j}><tbody>{b.trim().split("\n").filter((row) => !/^\|[ |-]*$/.test(row)).map((row, k) => <tr key={k}>{row.slice(1, -1).split("|").map((cell, n) => <td key={n}>{inline(cell.trim())}</td>)}</tr>)}</tbody></table>;
      return <p key={j}>{inline(b)}</p>;
    });
  });
}

// inlineOf shows code, what is bold, and links, which are relative to the runbooks. The name of another section opens it here.
function inlineOf(text: string, base: string, name: string, open: (name: string) => void): ComponentChildren {
  const section = (to: string, i: number) => <a key={i} href={base + to.toLowerCase()} onClick={(e) => { e.preventDefault(); open(to); }}>{to}</a>;
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\[[^\]]+\]\([^)]+\))/).map((piece, i) => {
    if (i % 2 === 0) return piece;
    if (piece.startsWith("`")) {
      const code = piece.slice(1, -1);
      return isSection(code) && code !== name ? section(code, i) : <code key={i}>{code}</code>;
    }
    if (piece.startsWith("**")) return <b key={i}>{piece.slice(2, -2)}</b>;
    const [, label, href] = /^\[([^\]]+)\]\(([^)]+)\)$/.exec(piece)!;
    if (isSection(label!) && href === `#${label!.toLowerCase()}`) return section(label!, i);
    return <a key={i} href={new URL(href!, base).href} target="_blank" rel="noreferrer">{label}</a>;
  });
}

// isSection reports whether a text is the name of an alert: each has a section of the runbooks.
function isSection(text: string): boolean {
  return /^CausalStore[A-Z][A-Za-z]+$/.test(text);
}
