import { useEffect, useRef, useState, type FormEvent } from "react";
import type { Part } from "@parley-hq/client";
import { useShared } from "../shared/context.js";
import { useFault } from "../shared/hooks.js";
import { Icon } from "../shared/icons.js";

/** The form that changes a sent message; `now` is what has been typed. */
export function Editor({ seq, text, now, setNow, files, close }: { seq: number; text: string; now: string; setNow: (text: string) => void; files: Part[]; close: () => void }) {
  const { store, texts, branch } = useShared();
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useFault(store);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.setSelectionRange(text.length, text.length), [text]);
  const send = (e?: FormEvent) => {
    e?.preventDefault();
    if (!branch || busy || now.trim() === "") return;
    setBusy(true);
    setFault(undefined);
    branch(seq, now.trimEnd(), files).then(close, (err: unknown) => {
      setBusy(false);
      setFault(err instanceof Error ? err.message : String(err));
    });
  };
  return (
    <form className="pl-editor" onSubmit={send}>
      <textarea
        ref={field}
        className="pl-field"
        dir="auto"
        autoFocus={now === text}
        aria-label={texts.editMessage}
        rows={Math.min(12, now.split("\n").length + 1)}
        value={now}
        readOnly={busy}
        onChange={(e) => {
          setNow(e.target.value);
          setFault(undefined);
        }}
        onKeyDown={(e) => {
          if (e.key === "Escape") close();
          if (e.key === "Enter" && !e.shiftKey && !e.nativeEvent.isComposing && matchMedia("(pointer: fine)").matches) {
            e.preventDefault();
            send();
          }
        }}
      />
      <p className="pl-small pl-muted">{texts.editNote}</p>
      {fault && (
        <p className="pl-fault" role="alert">
          <Icon name="warn" size={14} /> {texts.failed}: {fault}
        </p>
      )}
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
