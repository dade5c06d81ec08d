import { useEffect, useRef, useState, type FormEvent, type ReactNode } from "react";
import type { SteerCommand, Workstream } from "@parley-hq/client";
import { useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";
import { onMenuKey } from "../shared/menukeys.js";

type Verb = SteerCommand | "message" | "terminate";

/** The state of the steering form of one workstream. */
export interface Steering {
  begin: (verb: Verb) => void;
  form: ReactNode;
}

const withoutText: readonly Verb[] = ["pause_requested", "resume_requested"];

/** The directives for a workstream, and the form to send one. */
export function useSteering(w: Workstream): Steering {
  const { client, store, texts } = useShared();
  const [verb, setVerb] = useState<Verb>();
  const [text, setText] = useState("");
  const [fault, setFault] = useState<string>();
  const [busy, setBusy] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (verb) area.current?.focus();
  }, [verb]);

  const close = () => {
    setVerb(undefined);
    setText("");
    setFault(undefined);
  };
  const send = (v: Verb, words: string) => {
    setBusy(true);
    setFault(undefined);
    const sent = v === "message" ? client.message(store.id, w.id, words) : v === "terminate" ? client.terminate(store.id, w.id, words) : client.steer(store.id, w.id, v, words);
    sent
      .then(close, (err: unknown) => setFault(err instanceof Error ? err.message : String(err)))
      .finally(() => setBusy(false));
  };
  const begin = (v: Verb) => (withoutText.includes(v) ? send(v, "") : setVerb(v));
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (verb && (verb === "terminate" || text.trim())) send(verb, text.trim());
  };
  const name = w.name || w.id;
  const form = verb ? (
    <form className="pl-steer" onSubmit={submit} onKeyDown={(e) => e.key === "Escape" && close()}>
      <label>
        <span>{texts.steerTitle[verb]?.(name) ?? verb}</span>
        {verb === "set_priority" ? (
          <select className="pl-field" value={text} onChange={(e) => setText(e.target.value)}>
            <option value="">{texts.pick}</option>
            {Object.entries(texts.priorities).map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        ) : (
          <textarea
            ref={area}
            className="pl-field"
            rows={2}
            dir="auto"
            value={text}
            onChange={(e) => setText(e.target.value)}
            onKeyDown={(e) => {
              if (e.key === "Enter" && !e.shiftKey && !e.nativeEvent.isComposing) submit(e);
            }}
          />
        )}
      </label>
      {fault && (
        <p className="pl-fault" role="alert">
          {fault}
        </p>
      )}
      <div className="pl-buttons">
        <button type="submit" className={verb === "terminate" ? "pl-danger" : "pl-primary"} disabled={busy || (verb !== "terminate" && !text.trim())}>
          {verb === "terminate" ? texts.steerVerbs.terminate : texts.send}
        </button>
        <button type="button" className="pl-button" onClick={close}>
          {verb === "terminate" ? texts.keepRunning : texts.cancel}
        </button>
      </div>
    </form>
  ) : fault ? (
    <p className="pl-fault" role="alert">
      {fault}
    </p>
  ) : undefined;
  return { begin, form };
}

/** The menu of directives; only for running workstreams, and only in interactive mode. */
export function SteeringMenu({ work: w, steering }: { work: Workstream; steering: Steering }) {
  const { texts, mode } = useShared();
  const box = useRef<HTMLDetailsElement>(null);
  if (mode !== "interactive") return null;
  if (w.ended_at) return <span className="pl-menu-space" />; // the states of all lanes end at the same edge
  const verbs: Verb[] = ["message", "add_instruction", "add_constraint", "set_priority", w.paused ? "resume_requested" : "pause_requested", ...(w.state === "canceling" ? [] : (["terminate"] as const))];
  const pick = (v: Verb) => {
    if (box.current) box.current.open = false;
    box.current?.querySelector("summary")?.focus();
    steering.begin(v);
  };
  return (
    <details
      ref={box}
      className="pl-menu"
      onBlur={(e) => {
        if (!e.currentTarget.contains(e.relatedTarget)) e.currentTarget.open = false;
      }}
      onKeyDown={onMenuKey}
    >
      <summary className="pl-iconbutton" aria-label={texts.steerMenu(w.name || w.id)} title={texts.steerMenu(w.name || w.id)}>
        <Icon name="more" />
      </summary>
      <div className="pl-pop">
        {verbs.map((v) => (
          <button key={v} type="button" className={v === "terminate" ? "pl-err" : undefined} onClick={() => pick(v)}>
            {texts.steerVerbs[v]}
          </button>
        ))}
      </div>
    </details>
  );
}
