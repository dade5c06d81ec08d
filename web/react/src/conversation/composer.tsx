import { memo, useEffect, useImperativeHandle, useRef, useState, type ReactNode, type Ref } from "react";
import { ParleyError, type ParleyClient, type Part } from "@parley-hq/client";
import { useUploads, type UploadRules } from "../files/uploads.js";
import type { Texts } from "../i18n/texts.js";
import { Icon } from "../shared/icons.js";

export interface ComposerHandle {
  focus: () => void;
  set: (text: string) => void;
  /** Puts a message before what is written already, and focuses the input. */
  edit: (text: string, files: Part[]) => void;
  /** Makes what is written the draft of a session; it returns whether the input has the focus. */
  moveTo: (key: string) => boolean;
}

/** The input for messages. It has its own state, so that typing renders nothing else. */
export const Composer = memo(function Composer(p: {
  handle?: Ref<ComposerHandle>;
  client: ParleyClient;
  texts: Texts;
  placeholder: string;
  /** Something runs that can be stopped. */
  running: boolean;
  stopping: boolean;
  /** A message waits for the end of the running turn. */
  queues: boolean;
  draftKey: string;
  uploads: UploadRules | false;
  autoFocus: boolean;
  /** The session, if it exists. */
  session: string | undefined;
  /** Creates the session for a first message with files. */
  create: (text: string) => Promise<string>;
  send: (text: string, files: Part[]) => Promise<void>;
  stop: () => void;
  sendText: string | undefined;
  busy: boolean;
  attached: Part[];
  onDetach: ((part: Part) => void) | undefined;
  className: string | undefined;
  inputClassName: string | undefined;
  start?: ReactNode;
  end?: ReactNode;
}) {
  const { texts } = p;
  const [text, setText] = useState(() => readDraft(p.draftKey));
  const [over, setOver] = useState(false);
  const [fault, setFault] = useState<{ message: string; offline: boolean }>();
  useEffect(() => {
    if (!fault?.offline) return;
    // It is true until the server answers again.
    let here = true;
    const look = () => void p.client.agents().then(() => here && setFault(undefined), () => {});
    const timer = setInterval(look, 2000);
    addEventListener("online", look);
    return () => {
      here = false;
      clearInterval(timer);
      removeEventListener("online", look);
    };
  }, [fault, p.client]);
  const [sending, setSending] = useState(false);
  const [escape, setEscape] = useState(false);
  const typed = useRef(text); // as of now: a new session takes it before the next render
  typed.current = text;
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const composing = useRef(false);
  const up = useUploads(p.client, p.session, p.uploads || {}, texts);
  useImperativeHandle(
    p.handle,
    () => ({
      focus: () => area.current?.focus(),
      set: setText,
      edit: (message, files) => {
        setText((now) => (now.trim() && message ? `${message}\n${now}` : message || now));
        up.keep(files);
        area.current?.focus();
      },
      moveTo: (key) => {
        writeDraft(key, typed.current);
        writeDraft(p.draftKey, "");
        return area.current?.matches(":focus") ?? false;
      },
    }),
    [up.keep, p.draftKey],
  );
  useEffect(() => setText(readDraft(p.draftKey)), [p.draftKey]);
  useEffect(() => {
    const t = setTimeout(() => writeDraft(p.draftKey, text), 300);
    return () => clearTimeout(t);
  }, [text, p.draftKey]);
  useEffect(() => {
    if (p.autoFocus && matchMedia("(pointer: fine)").matches) area.current?.focus({ preventScroll: true });
  }, [p.autoFocus, p.draftKey]);
  useEffect(() => {
    if (!escape) return;
    const t = setTimeout(() => setEscape(false), 2000);
    return () => clearTimeout(t);
  }, [escape]);

  const problem = fault?.message ?? up.fault;
  const ready = !p.busy && !sending && !up.busy && (text.trim() !== "" || up.kept || up.files.some((f) => f.part) || p.attached.length > 0);
  const clear = () => {
    setText((typed.current = ""));
    writeDraft(p.draftKey, "");
    up.clear();
  };
  const failed = (err: unknown) => setFault({ message: err instanceof Error ? err.message : String(err), offline: err instanceof ParleyError && err.code === "unavailable" });
  const send = () => {
    if (!ready) return;
    const sent = text;
    const words = sent.trimEnd();
    setFault(undefined);
    if (up.kept) {
      // The message stays in the composer until its files are stored.
      setSending(true);
      const work = async () => {
        const files = await up.finish(await p.create(words));
        if (!files) return;
        clear();
        await p.send(words, files);
      };
      return void work().catch(failed).finally(() => setSending(false));
    }
    clear();
    p.send(words, up.files.flatMap((f) => (f.part ? [f.part] : []))).catch((err: unknown) => {
      setText((now) => now || sent);
      failed(err);
    });
  };
  const onKeyDown = (e: React.KeyboardEvent) => {
    if (e.key === "Escape" && p.running) {
      if (escape) p.stop();
      setEscape(!escape);
      return;
    }
    if (e.key !== "Enter" || e.shiftKey || e.nativeEvent.isComposing || composing.current) return;
    // On a touch keyboard only Enter inserts a new line.
    if (matchMedia("(pointer: coarse)").matches && !e.ctrlKey && !e.metaKey) return;
    e.preventDefault();
    // A key that is held down may come from an answered prompt.
    if (!e.repeat) send();
  };
  const drop = p.uploads === false ? {} : {
    onDragOver: (e: React.DragEvent) => {
      if (![...e.dataTransfer.types].includes("Files")) return;
      e.preventDefault();
      setOver(true);
    },
    onDragLeave: () => setOver(false),
    onDrop: (e: React.DragEvent) => {
      e.preventDefault();
      setOver(false);
      up.add(e.dataTransfer.files);
    },
    onPaste: (e: React.ClipboardEvent) => {
      if (e.clipboardData.files.length === 0) return;
      e.preventDefault();
      up.add(e.clipboardData.files);
    },
  };
  return (
    <div className={p.className ? `pl-composer-wrap ${p.className}` : "pl-composer-wrap"}>
      <form
        className={`pl-composer${over ? " pl-over" : ""}`}
        onSubmit={(e) => {
          e.preventDefault();
          send();
        }}
        {...drop}
      >
        {up.files.length > 0 && (
          <ul className="pl-chips" aria-label={texts.files}>
            {up.files.map((f) => (
              <li key={f.key} className={`pl-chip${f.error ? " pl-bad" : ""}`}>
                {f.thumb ? <img className="pl-thumb" src={f.thumb} alt="" onError={(e) => (e.currentTarget.hidden = true)} /> : <Icon name="file" size={14} />}
                <span>{f.name}</span>
                {f.error ? (
                  <>
                    <span>{f.error}</span>
                    <button type="button" className="pl-link" onClick={() => up.retry(f.key)}>
                      {texts.retry}
                    </button>
                  </>
                ) : f.loading ? (
                  <progress className="pl-progress" max={1} value={f.share} aria-label={f.name} />
                ) : (
                  <span className="pl-muted">{texts.bytes(f.size)}</span>
                )}
                <button type="button" className="pl-mini" aria-label={texts.removeFile(f.name)} onClick={() => up.remove(f.key)}>
                  <Icon name="cross" size={12} />
                </button>
              </li>
            ))}
          </ul>
        )}
        {p.attached.length > 0 && (
          <ul className="pl-chips">
            {p.attached.map((a, i) => (
              <li key={i} className="pl-chip">
                <Icon name="file" size={14} />
                <span>{a.name ?? a.path ?? a.url}</span>
                {p.onDetach && (
                  <button type="button" className="pl-mini" aria-label={texts.removeFile(a.name ?? "")} onClick={() => p.onDetach?.(a)}>
                    <Icon name="cross" size={12} />
                  </button>
                )}
              </li>
            ))}
          </ul>
        )}
        <div className="pl-grow-area" data-text={`${text}\n`}>
          <textarea
            ref={area}
            className={p.inputClassName}
            rows={1}
            dir="auto"
            aria-label={texts.composerLabel}
            placeholder={over ? texts.dropHere : p.placeholder}
            value={text}
            readOnly={sending}
            onChange={(e) => {
              setText(e.target.value);
              setFault(undefined);
            }}
            onKeyDown={onKeyDown}
            onCompositionStart={() => (composing.current = true)}
            // Some browsers send the Enter that ends a composition after its end.
            onCompositionEnd={() => setTimeout(() => (composing.current = false))}
          />
        </div>
        <div className="pl-composer-bar">
          {p.start}
          {p.uploads !== false && (
            <>
              <button type="button" className="pl-iconbutton" title={texts.attach} aria-label={texts.attach} onClick={() => picker.current?.click()}>
                <Icon name="plus" />
              </button>
              <input
                ref={picker}
                type="file"
                hidden
                multiple
                accept={p.uploads.accept}
                onChange={(e) => {
                  if (e.target.files) up.add(e.target.files);
                  e.target.value = "";
                }}
              />
            </>
          )}
          <span className="pl-grow pl-hint" role="status">
            {escape ? texts.stopAgain : p.queues && text.trim() ? texts.runsNow : ""}
          </span>
          {p.end}
          {p.running && (
            <button type="button" className="pl-button" disabled={p.stopping} onClick={p.stop}>
              <Icon name="stop" size={14} /> {p.stopping ? texts.stopping : texts.stop}
            </button>
          )}
          {(!p.running || ready) && (
            <button type="submit" className="pl-primary pl-send" disabled={!ready} aria-label={p.queues ? texts.queue : (p.sendText ?? texts.send)} title={p.queues ? texts.queue : undefined}>
              {p.sendText ? <span>{p.sendText}</span> : <Icon name="up" />}
            </button>
          )}
        </div>
      </form>
      {problem && (
        <p className="pl-fault" role="alert">
          <Icon name="warn" size={14} /> {problem}
        </p>
      )}
    </div>
  );
});

// The draft survives a reload if the page has storage.
function readDraft(key: string): string {
  try {
    return localStorage.getItem(`parley.draft.${key}`) ?? "";
  } catch {
    return "";
  }
}

function writeDraft(key: string, text: string): void {
  try {
    if (text) localStorage.setItem(`parley.draft.${key}`, text);
    else localStorage.removeItem(`parley.draft.${key}`);
  } catch {
    // Without storage the draft is not saved.
  }
}
