// What to do about a problem: a section of the runbooks.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { getRunbook } from "./server";

export function Runbook({ name, base, faults, close }: { name: string; base: string; faults: boolean; close(): void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  useEffect(() => {
    dialog.current!.showModal();
    getRunbook(name).then((r) => setText(r.text), (e: Error) => setError(e.message));
  }, []);
  return (
    <dialog ref={dialog} class="runbook" aria-labelledby="runbook-name" onClose={close}>
      <h2 id="runbook-name">{name}</h2>
      {faults && <p class="nothere">On this machine: Heal everything ends all faults. This is what to do in Kubernetes:</p>}
      <div class="text">{blocksOf(text, base)}</div>
      {error && <p class="error" role="alert">{error}</p>}
      <p class="actions">
        <button class="primary" onClick={close}>Close</button>
        <a href={base + name.toLowerCase()} target="_blank" rel="noreferrer">All runbooks</a>
      </p>
    </dialog>
  );
}

// blocksOf shows the Markdown that runbooks use: paragraphs, lists, tables, and blocks of code.
function blocksOf(text: string, base: string): ComponentChildren {
  return text.split(/^```.*$/m).map((part, i) => {
    if (i % 2 === 1) return <pre key={i} tabIndex={0}>{part.trim()}</pre>;
    return part.split(/\n\n+/).filter((b) => b.trim()).map((b, j) => {
      if (/^\s*\* /.test(b)) return <ul key={j}>{b.trim().split(/^\* /m).filter((item) => item).map((item, k) => <li key={k}>{inline(item, base)}</li>)}</ul>;
      if (/^\s*\| /.test(b)) return <table key={j}><tbody>{b.trim().split("\n").filter((row) => !/^\|[ |-]*$/.test(row)).map((row, k) => <tr key={k}>{row.slice(1, -1).split("|").map((cell, n) => <td key={n}>{inline(cell.trim(), base)}</td>)}</tr>)}</tbody></table>;
      return <p key={j}>{inline(b, base)}</p>;
    });
  });
}

// inline shows code, what is bold, and links, which are relative to the runbooks.
function inline(text: string, base: string): ComponentChildren {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\[[^\]]+\]\([^)]+\))/).map((piece, i) => {
    if (i % 2 === 0) return piece;
    if (piece.startsWith("`")) return <code key={i}>{piece.slice(1, -1)}</code>;
    if (piece.startsWith("**")) return <b key={i}>{piece.slice(2, -2)}</b>;
    const [, label, href] = /^\[([^\]]+)\]\(([^)]+)\)$/.exec(piece)!;
    return <a key={i} href={new URL(href!, base).href} target="_blank" rel="noreferrer">{label}</a>;
  });
}
