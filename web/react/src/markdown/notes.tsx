import { useId, useState } from "react";
import { useShared } from "../shared/context.js";
import { lex } from "./extension.js";
import { inline } from "./markdown.js";

/** A reference to a footnote. It shows the note in place: its definition may be in a row that is not mounted. */
export function NoteRef({ number, note }: { number: number; note: string }) {
  const { texts } = useShared();
  const [open, setOpen] = useState(false);
  const id = useId();
  return (
    <>
      <sup>
        <button type="button" className="pl-noteref" aria-expanded={open} aria-controls={open ? id : undefined} aria-label={texts.footnote(number)} onClick={() => setOpen(!open)}>
          {number}
        </button>
      </sup>
      {open && (
        <span id={id} className="pl-noteopen" role="note" dir="auto">
          {lex(note).map((t, i) => (
            <span key={i}>{"tokens" in t && t.tokens ? inline(t.tokens) : t.raw} </span>
          ))}
        </span>
      )}
    </>
  );
}
