import { useEffect, useId, useLayoutEffect, useRef, useState } from "react";
import type { AgentApprovalRequest, ApprovalCall, Decision } from "@parley-hq/client";
import { useRowState, useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";
import { hidden, pretty } from "../shared/json.js";
import type { FormProps } from "./prompt.js";
import { Risk } from "./risk.js";

/** The unsent changes of a person. */
interface Draft {
  edited: Record<string, string | undefined>; // by call: the arguments as text
  denying: boolean;
  reason: string;
  fault?: { call: string; text: string; at: number | undefined } | undefined; // the call whose text is not JSON, and where
}

/** The offset in a text that an error of JSON.parse names; browsers name it in different ways, some not always. */
function offsetOf(text: string, message: string): number | undefined {
  const at = /position (\d+)/.exec(message)?.[1];
  if (at) return Number(at);
  const [, line, column] = /line (\d+) column (\d+)/.exec(message) ?? [];
  if (line && column) return text.split("\n", Number(line) - 1).join("\n").length + Number(column) - (line === "1" ? 1 : 0);
  return /end of/.test(message) ? text.length : undefined;
}

/** The form of an approval prompt; a person can edit the arguments of its calls. */
export function ApprovalForm(p: FormProps & { approval: AgentApprovalRequest }) {
  const { texts } = useShared();
  const [draft, setDraft] = useRowState<Draft>(`approval ${p.id}`, { edited: {}, denying: false, reason: "" });
  const fid = useId();
  const change = (d: Partial<Draft>) => setDraft({ ...draft, fault: undefined, ...d });

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
          const why = err instanceof Error ? err.message : "";
          return change({ fault: { call: c.call_id, text: texts.notJSON(why), at: offsetOf(text, why) } });
        }
      }
      if (remember) d.remember = remember;
      if (!approve && draft.reason.trim()) d.reason = draft.reason.trim();
      decisions.push(d);
    }
    p.send({ decisions });
  };
  // Keep the buttons in view when one of them expands the form.
  const form = useRef<HTMLDivElement>(null);
  const opened = draft.denying || Object.values(draft.edited).some((t) => t !== undefined);
  useEffect(() => {
    if (opened) form.current?.scrollIntoView({ block: "nearest" });
  }, [opened, draft.fault, p.error]);
  return (
    <div ref={form} role="group" aria-labelledby={`q-${p.id}`} aria-describedby={p.error ? fid : undefined}>
      {p.approval.calls.map((c) => (
        <Call
          key={c.call_id}
          call={c}
          text={draft.edited[c.call_id]}
          fault={draft.fault?.call === c.call_id ? draft.fault : undefined}
          disabled={p.disabled}
          onEdit={(t) => change({ edited: { ...draft.edited, [c.call_id]: t } })}
          onDone={() => decide(true)}
        />
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
      {p.error && <Fault id={fid} text={p.error} />}
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

function Fault({ id, text }: { id: string; text: string }) {
  return (
    <p className="pl-fault" id={id} role="alert">
      <Icon name="warn" size={14} /> {text}
    </p>
  );
}

function Call(p: { call: ApprovalCall; text: string | undefined; fault: Draft["fault"]; disabled: boolean; onEdit: (text: string | undefined) => void; onDone: () => void }) {
  const { texts } = useShared();
  const { call_id, tool, params, risk } = p.call;
  const fid = useId();
  const area = useRef<HTMLTextAreaElement>(null);
  const opening = useRef(false); // a row that is mounted again does not take the focus
  const editing = p.text !== undefined;
  const original = pretty(params ?? {});
  useEffect(() => {
    if (!editing || !opening.current) return;
    opening.current = false;
    area.current?.focus({ preventScroll: true });
    area.current?.setSelectionRange(0, 0);
  }, [editing]);
  // Put the caret where the text is wrong.
  const { fault } = p;
  const seen = useRef(fault);
  useEffect(() => {
    if (fault && fault !== seen.current) {
      area.current?.blur(); // a field that gets the focus scrolls to its caret
      if (fault.at !== undefined) area.current?.setSelectionRange(fault.at, fault.at);
      area.current?.focus();
    }
    seen.current = fault;
  }, [fault]);
  return (
    <div className="pl-call">
      <div className="pl-call-head">
        <code dir="ltr">{tool}</code>
        {risk && <Risk risk={risk} />}
        <button
          type="button"
          className="pl-mini"
          disabled={p.disabled}
          onClick={() => {
            opening.current = !editing;
            p.onEdit(editing ? undefined : original);
          }}
        >
          {!editing ? texts.edit : p.text === original ? texts.cancel : texts.editDone}
        </button>
      </div>
      {editing ? (
        <>
          <textarea
            ref={area}
            className="pl-field pl-mono"
            dir="ltr"
            spellCheck={false}
            aria-label={`${texts.arguments} ${tool}`}
            aria-invalid={fault ? true : undefined}
            aria-describedby={fault ? fid : undefined}
            rows={Math.min(14, p.text?.split("\n").length ?? 0)}
            value={p.text}
            disabled={p.disabled}
            onChange={(e) => p.onEdit(e.target.value)}
            onKeyDown={(e) => {
              if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && !e.nativeEvent.isComposing) p.onDone();
            }}
          />
          {fault && <Fault id={fid} text={fault.text} />}
        </>
      ) : (
        params !== undefined && <Params id={call_id} params={params} />
      )}
    </div>
  );
}

/** The arguments of a call. Long ones are cut off until a person expands them, so that the question and the buttons stay in view. */
function Params({ id, params }: { id: string; params: unknown }) {
  const { texts } = useShared();
  const [revealed, reveal] = useRowState(`reveal ${id}`, false);
  const [all, setAll] = useRowState(`params ${id}`, false);
  const [cut, setCut] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const el = box.current;
    if (!el || all) return setCut(false);
    const measure = () => setCut(el.scrollHeight > el.clientHeight + 1);
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(el);
    return () => watch.disconnect();
  }, [all, revealed]);
  const pairs = params && typeof params === "object" && !Array.isArray(params) ? Object.entries(params as Record<string, unknown>) : undefined;
  return (
    <>
      <div ref={box} className={`pl-params${all ? "" : " pl-params-short"}${cut ? " pl-params-cut" : ""}`}>
        {pairs ? (
          <dl>
            {pairs.map(([k, v]) => {
              const whole = pretty(v);
              const masked = pretty(hidden(k, v), hidden);
              return (
                <div key={k}>
                  <dt>{k}</dt>
                  <dd dir="ltr">
                    <span>{revealed ? whole : masked}</span>
                    {masked !== whole && (
                      <button type="button" className="pl-link" onClick={() => reveal(!revealed)}>
                        {revealed ? texts.hide : texts.reveal}
                      </button>
                    )}
                  </dd>
                </div>
              );
            })}
          </dl>
        ) : (
          <pre dir="ltr">{pretty(params, hidden)}</pre>
        )}
      </div>
      {cut && (
        <button type="button" className="pl-mini pl-params-all" onClick={() => setAll(true)}>
          {texts.showAll(texts.bytes(pretty(params).length))}
        </button>
      )}
    </>
  );
}
