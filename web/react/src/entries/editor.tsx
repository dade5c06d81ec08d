import { useState, type FormEvent } from "react";
import type { Part } from "@parley-hq/client";
import { useShared } from "../shared/context.js";

/** The form that changes a sent message. */
export function Editor({ seq, text, files, close }: { seq: number; text: string; files: Part[]; close: () => void }) {
  const { texts, branch } = useShared();
  const [now, setNow] = useState(text);
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<string>();
  const send = (e?: FormEvent) => {
    e?.preventDefault();
    if (!branch || busy || now.trim() === "") return;
    setBusy(true);
    branch(seq, now.trimEnd(), files).then(close, (err: unknown) => {
      setBusy(false);
      setFault(err instanceof Error ? err.message : String(err));
    });
  };
  return (
    <form className="pl-editor" onSubmit={send}>
      <textarea
        className="pl-field"
        dir="auto"
        autoFocus
        aria-label={texts.editMessage}
        rows={Math.min(12, now.split("\n").length + 1)}
        value={now}
        disabled={busy}
        onChange={(e) => setNow(e.target.value)}
        onKeyDown={(e) => {
          if (e.key === "Escape") close();
          if (e.key === "Enter" && !e.shiftKey && !e.nativeEvent.isComposing && matchMedia("(pointer: fine)").matches) {
            e.preventDefault();
            send();
          }
        }}
      />
      <p className="pl-small pl-muted">{texts.editNote}</p>
      {fault && <p className="pl-fault">{fault}</p>}
      <div className="pl-buttons">
        <button type="submit" className="pl-primary" disabled={busy || now.trim() === ""}>
          {texts.send}
        </button>
        <button type="button" className="pl-ghost" onClick={close}>
          {texts.cancel}
        </button>
      </div>
    </form>
  );
}
