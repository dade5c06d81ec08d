import { useId, useState } from "react";
import type { AgentPermissionRequest } from "@parley-hq/client";
import { useRowState, useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";
import { pretty } from "../shared/json.js";
import type { FormProps } from "./prompt.js";

const durations = ["once", "session", "always"];

/** The form of a permission prompt: scopes, and the agent's reason as plain text. */
export function PermissionForm(p: FormProps & { permission: AgentPermissionRequest }) {
  const { texts } = useShared();
  const { scopes, justification, requested_tool, requested_args } = p.permission;
  const [chosen, setChosen] = useRowState<string[]>(`scopes ${p.id}`, scopes);
  const [duration, setDuration] = useRowState(`duration ${p.id}`, "once");
  const [fault, setFault] = useState<string>();
  const fid = useId();
  const bad = fault ?? p.error;
  const grant = () => {
    if (chosen.length === 0) return setFault(texts.chooseScope);
    p.send({ granted: chosen, denied: scopes.filter((s) => !chosen.includes(s)), duration });
  };
  return (
    <div role="group" aria-labelledby={`q-${p.id}`} aria-describedby={bad ? fid : undefined}>
      {justification && <blockquote className="pl-why">{justification}</blockquote>}
      {requested_tool && (
        <div className="pl-call">
          <div className="pl-call-head">
            {texts.forWhat} <code dir="ltr">{requested_tool}</code>
          </div>
          {requested_args !== undefined && (
            <pre dir="ltr" tabIndex={0}>
              {pretty(requested_args)}
            </pre>
          )}
        </div>
      )}
      <fieldset className="pl-options" disabled={p.disabled}>
        <legend className="pl-hidden">{texts.permissionTitle}</legend>
        {scopes.map((s) => (
          <label key={s} className="pl-option">
            <input
              type="checkbox"
              checked={chosen.includes(s)}
              onChange={(e) => {
                setFault(undefined);
                setChosen(e.target.checked ? scopes.filter((x) => x === s || chosen.includes(x)) : chosen.filter((c) => c !== s));
              }}
            />
            <code dir="ltr">{s}</code>
          </label>
        ))}
      </fieldset>
      <fieldset className="pl-segments" disabled={p.disabled}>
        <legend>{texts.duration}</legend>
        {durations.map((d) => (
          <label key={d}>
            <input type="radio" name={`d-${p.id}`} checked={duration === d} onChange={() => setDuration(d)} />
            <span>{texts.durations[d]}</span>
          </label>
        ))}
      </fieldset>
      {bad && (
        <p className="pl-fault" id={fid} role="alert">
          <Icon name="warn" size={14} /> {bad}
        </p>
      )}
      <div className="pl-buttons">
        <button type="button" className="pl-primary" disabled={p.disabled} onClick={grant}>
          {texts.grant}
        </button>
        <button type="button" className="pl-button pl-deny" disabled={p.disabled} onClick={() => p.send({ granted: [], denied: scopes })}>
          {texts.deny}
        </button>
      </div>
    </div>
  );
}
