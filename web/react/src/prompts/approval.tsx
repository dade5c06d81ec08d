import { useEffect, useId, useRef } from "react";
import type { AgentApprovalRequest, ApprovalCall, Decision } from "@parley-hq/client";
import { useRowState, useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";
import { pretty } from "../shared/json.js";
import type { FormProps } from "./prompt.js";
import { Risk } from "./risk.js";

const secret = /secret|token|password|passwd|api[_-]?key|authorization|credential/i;

/** The unsent changes of a person. */
interface Draft {
  edited: Record<string, string | undefined>; // by call: the arguments as text
  denying: boolean;
  reason: string;
  fault: string;
}

/** The form of an approval prompt; a person can edit the arguments of its calls. */
export function ApprovalForm(p: FormProps & { approval: AgentApprovalRequest }) {
  const { texts } = useShared();
  const [draft, setDraft] = useRowState<Draft>(`approval ${p.id}`, { edited: {}, denying: false, reason: "", fault: "" });
  const fid = useId();
  const change = (d: Partial<Draft>) => setDraft({ ...draft, fault: "", ...d });

  const decide = (approve: boolean, remember?: string) => {
    const decisions: Decision[] = [];
    for (const c of p.approval.calls) {
      const d: Decision = { call_id: c.call_id, approve };
      const text = draft.edited[c.call_id];
      if (approve && text !== undefined) {
        try {
          const params: unknown = JSON.parse(text);
          if (JSON.stringify(params) !== JSON.stringify(c.params)) d.params = params;
        } catch (err) {
          return change({ fault: texts.notJSON(err instanceof Error ? err.message : "") });
        }
      }
      if (remember) d.remember = remember;
      if (!approve && draft.reason.trim()) d.reason = draft.reason.trim();
      decisions.push(d);
    }
    p.send({ decisions });
  };
  const bad = draft.fault || p.error;
  // Keep the buttons in view when one of them expands the form.
  const form = useRef<HTMLDivElement>(null);
  const opened = draft.denying || Object.values(draft.edited).some((t) => t !== undefined);
  useEffect(() => {
    if (opened) form.current?.scrollIntoView({ block: "nearest" });
  }, [opened, bad]);
  return (
    <div ref={form} role="group" aria-labelledby={`q-${p.id}`} aria-describedby={bad ? fid : undefined}>
      {p.approval.calls.map((c) => (
        <Call key={c.call_id} call={c} text={draft.edited[c.call_id]} disabled={p.disabled} onEdit={(t) => change({ edited: { ...draft.edited, [c.call_id]: t } })} />
      ))}
      {draft.denying && (
        <input
          className="pl-field"
          aria-label={texts.denyReason}
          placeholder={texts.denyReason}
          value={draft.reason}
          disabled={p.disabled}
          autoFocus
          onChange={(e) => change({ reason: e.target.value })}
          onKeyDown={(e) => {
            if (e.key === "Enter" && !e.nativeEvent.isComposing) decide(false);
            if (e.key === "Escape") change({ denying: false });
          }}
        />
      )}
      {bad && (
        <p className="pl-fault" id={fid} role="alert">
          <Icon name="warn" size={14} /> {bad}
        </p>
      )}
      <div className="pl-buttons">
        {draft.denying ? (
          <>
            <button type="button" className="pl-danger" disabled={p.disabled} onClick={() => decide(false)}>
              {draft.reason.trim() ? texts.denyNow : texts.deny}
            </button>
            <button type="button" className="pl-ghost" disabled={p.disabled} onClick={() => change({ denying: false })}>
              {texts.cancel}
            </button>
          </>
        ) : (
          <>
            <button type="button" className="pl-primary" disabled={p.disabled} onClick={() => decide(true)}>
              {texts.approveOnce}
            </button>
            <button type="button" className="pl-button" disabled={p.disabled} onClick={() => decide(true, "session")}>
              {texts.approveSession}
            </button>
            <button type="button" className="pl-ghost pl-deny" disabled={p.disabled} onClick={() => change({ denying: true })}>
              {texts.deny}
            </button>
          </>
        )}
      </div>
    </div>
  );
}

function Call(p: { call: ApprovalCall; text: string | undefined; disabled: boolean; onEdit: (text: string | undefined) => void }) {
  const { texts } = useShared();
  const [revealed, reveal] = useRowState(`reveal ${p.call.call_id}`, false);
  const { tool, params, risk } = p.call;
  const pairs = params && typeof params === "object" && !Array.isArray(params) ? Object.entries(params as Record<string, unknown>) : undefined;
  return (
    <div className="pl-call">
      <div className="pl-call-head">
        <code dir="ltr">{tool}</code>
        {risk && <Risk risk={risk} />}
        <button type="button" className="pl-mini" disabled={p.disabled} onClick={() => p.onEdit(p.text === undefined ? pretty(params ?? {}) : undefined)}>
          {p.text === undefined ? texts.edit : texts.editDone}
        </button>
      </div>
      {p.text !== undefined ? (
        <textarea
          className="pl-field pl-mono"
          dir="ltr"
          spellCheck={false}
          aria-label={`${texts.arguments} ${tool}`}
          rows={Math.min(14, p.text.split("\n").length + 1)}
          value={p.text}
          disabled={p.disabled}
          onChange={(e) => p.onEdit(e.target.value)}
        />
      ) : pairs ? (
        <dl className="pl-params">
          {pairs.map(([k, v]) => (
            <div key={k}>
              <dt>{k}</dt>
              <dd dir="ltr">
                <span>{secret.test(k) && !revealed ? "••••••" : pretty(v)}</span>
                {secret.test(k) && (
                  <button type="button" className="pl-link" onClick={() => reveal(!revealed)}>
                    {revealed ? texts.hide : texts.reveal}
                  </button>
                )}
              </dd>
            </div>
          ))}
        </dl>
      ) : params !== undefined ? (
        <pre dir="ltr" tabIndex={0}>
          {pretty(params)}
        </pre>
      ) : null}
    </div>
  );
}
