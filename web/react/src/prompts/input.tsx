import { useId, useState, type FormEvent, type KeyboardEvent } from "react";
import type { AgentInputRequest, Option } from "@parley-hq/client";
import { hostOf, safeHref } from "../markdown/markdown.js";
import { useRowState, useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";
import type { FormProps } from "./prompt.js";

const valueOf = (o: Option): string => o.value || o.id || o.label;
const filterFrom = 8;
const nativeSelectTo = 30;

/** The form of an input prompt of any type. */
export function InputForm(p: FormProps & { input: AgentInputRequest }) {
  switch (p.input.input_type) {
    case "binary_choice":
      return <Binary {...p} />;
    case "radio":
    case "checkbox":
      return <Choices {...p} many={p.input.input_type === "checkbox"} />;
    case "dropdown":
      return (p.input.options?.length ?? 0) > nativeSelectTo ? <Choices {...p} many={false} /> : <Dropdown {...p} />;
    case "oauth_consent":
      return <Consent {...p} />;
    default:
      return <TextInput {...p} />;
  }
}

/** Ctrl+Enter sends the answer from any field. */
function sendKey(e: KeyboardEvent<HTMLFormElement>): void {
  if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey) || e.nativeEvent.isComposing) return;
  e.preventDefault();
  e.currentTarget.requestSubmit();
}

function Fault({ id, text }: { id: string; text: string | undefined }) {
  return text ? (
    <p className="pl-fault" id={id} role="alert">
      <Icon name="warn" size={14} /> {text}
    </p>
  ) : null;
}

function Buttons(p: FormProps & { required: boolean; empty: () => void }) {
  const { texts } = useShared();
  return (
    <div className="pl-buttons">
      <button type="submit" className="pl-primary" disabled={p.disabled}>
        {texts.sendAnswer}
      </button>
      {!p.required && (
        <button type="button" className="pl-button" disabled={p.disabled} onClick={p.empty}>
          {texts.skip}
        </button>
      )}
    </div>
  );
}

function TextInput(p: FormProps & { input: AgentInputRequest }) {
  const { texts } = useShared();
  const [text, setText] = useRowState(`draft ${p.id}`, "");
  const [fault, setFault] = useState<string>();
  const fid = useId();
  const required = p.input.required !== false;
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (required && !text.trim()) return setFault(texts.writeSomething);
    setFault(undefined);
    p.send({ text });
  };
  const bad = fault ?? p.error;
  return (
    <form onSubmit={submit} onKeyDown={sendKey}>
      <textarea
        className="pl-field"
        rows={2}
        dir="auto"
        aria-labelledby={`q-${p.id}`}
        aria-invalid={bad ? true : undefined}
        aria-describedby={bad ? fid : undefined}
        placeholder={p.input.placeholder}
        value={text}
        disabled={p.disabled}
        onChange={(e) => {
          setText(e.target.value);
          setFault(undefined);
        }}
      />
      <Fault id={fid} text={bad} />
      <Buttons {...p} required={required} empty={() => p.send({ text: "" })} />
    </form>
  );
}

function Binary(p: FormProps & { input: AgentInputRequest }) {
  const fid = useId();
  return (
    <div role="group" aria-labelledby={`q-${p.id}`}>
      <Fault id={fid} text={p.error} />
      <div className="pl-buttons pl-equal">
        {p.input.options?.map((o) => (
          <button key={o.id} type="button" className="pl-button" disabled={p.disabled} onClick={() => p.send({ values: [valueOf(o)] })}>
            {o.label}
            {o.description && <small>{o.description}</small>}
          </button>
        ))}
      </div>
    </div>
  );
}

function Choices(p: FormProps & { input: AgentInputRequest; many: boolean }) {
  const { texts } = useShared();
  const [chosen, setChosen] = useRowState<string[]>(`chosen ${p.id}`, []);
  const [filter, setFilter] = useState("");
  const [fault, setFault] = useState<string>();
  const fid = useId();
  const { min = 0, max = 0 } = p.input;
  const required = p.input.required !== false;
  const options = p.input.options ?? [];
  const wanted = filter.toLowerCase();
  const shown = options.filter((o) => !wanted || `${o.label} ${o.description ?? ""}`.toLowerCase().includes(wanted));
  const submit = (e: FormEvent) => {
    e.preventDefault();
    const least = Math.max(min, required ? 1 : 0);
    if (!p.many && required && chosen.length === 0) return setFault(texts.chooseOne);
    if (p.many && chosen.length < least) return setFault(texts.chooseFewest(least));
    if (p.many && max > 0 && chosen.length > max) return setFault(texts.chooseMost(max));
    setFault(undefined);
    // In the order of the options, not of the clicks.
    p.send({ values: options.map(valueOf).filter((v) => chosen.includes(v)) });
  };
  const pick = (v: string, on: boolean) => {
    setFault(undefined);
    setChosen(p.many ? (on ? [...chosen, v] : chosen.filter((c) => c !== v)) : [v]);
  };
  const bad = fault ?? p.error;
  return (
    <form onSubmit={submit} onKeyDown={sendKey}>
      {options.length >= filterFrom && (
        <input type="search" className="pl-field pl-filter" aria-label={texts.filter} placeholder={texts.filter} value={filter} onChange={(e) => setFilter(e.target.value)} />
      )}
      <fieldset className="pl-options" disabled={p.disabled} aria-describedby={bad ? fid : undefined}>
        <legend className="pl-hidden">{p.input.text}</legend>
        {shown.map((o) => {
          const v = valueOf(o);
          return (
            <label key={v} className="pl-option">
              <input type={p.many ? "checkbox" : "radio"} name={`c-${p.id}`} value={v} checked={chosen.includes(v)} onChange={(e) => pick(v, e.target.checked)} />
              <span dir="auto">
                {o.label}
                {o.description && <span className="pl-option-about">{o.description}</span>}
              </span>
            </label>
          );
        })}
      </fieldset>
      {p.many && (
        <p className="pl-muted pl-small">
          {texts.chooseBetween(Math.max(min, required ? 1 : 0), max)} · {texts.chosen(chosen.length)}
        </p>
      )}
      <Fault id={fid} text={bad} />
      <Buttons {...p} required={required} empty={() => p.send({ values: [] })} />
    </form>
  );
}

function Dropdown(p: FormProps & { input: AgentInputRequest }) {
  const { texts } = useShared();
  const [value, setValue] = useRowState(`chosen ${p.id}`, "");
  const [fault, setFault] = useState<string>();
  const fid = useId();
  const required = p.input.required !== false;
  const about = p.input.options?.find((o) => valueOf(o) === value)?.description;
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (required && !value) return setFault(texts.chooseOne);
    setFault(undefined);
    p.send({ values: value ? [value] : [] });
  };
  const bad = fault ?? p.error;
  return (
    <form onSubmit={submit} onKeyDown={sendKey}>
      <select
        className="pl-field pl-select"
        aria-labelledby={`q-${p.id}`}
        aria-describedby={bad ? fid : undefined}
        value={value}
        disabled={p.disabled}
        onChange={(e) => {
          setValue(e.target.value);
          setFault(undefined);
        }}
      >
        <option value="">{texts.pick}</option>
        {p.input.options?.map((o) => (
          <option key={o.id} value={valueOf(o)}>
            {o.label}
          </option>
        ))}
      </select>
      {about && <p className="pl-muted pl-small">{about}</p>}
      <Fault id={fid} text={bad} />
      <Buttons {...p} required={required} empty={() => p.send({ values: [] })} />
    </form>
  );
}

function Consent(p: FormProps & { input: AgentInputRequest }) {
  const { texts } = useShared();
  const fid = useId();
  const url = p.input.url ?? p.input.text;
  const safe = /^https?:/i.test(url) ? safeHref(url) : undefined;
  return (
    <div role="group" aria-labelledby={`q-${p.id}`}>
      <p className="pl-scope">
        <code dir="ltr">{url}</code>
      </p>
      <Fault id={fid} text={p.error} />
      <div className="pl-buttons">
        {safe && (
          <a className="pl-primary" href={safe} target="_blank" rel="noopener noreferrer nofollow">
            {texts.openConsent(hostOf(safe))}
          </a>
        )}
        <button type="button" className="pl-button" disabled={p.disabled} onClick={() => p.send({ text: "done" })}>
          {texts.consentGiven}
        </button>
      </div>
    </div>
  );
}
