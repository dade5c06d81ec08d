import type { ReactNode } from "react";
import type { ApprovalCall, Decision, ItemOf, PromptItem } from "@parley-hq/client";
import { ToolRow } from "../entries/tool.js";
import type { Texts } from "../i18n/texts.js";
import { useRowState, useShared, type Shared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";
import { hidden, paramsSummary, pretty, Value } from "../shared/json.js";
import { questionOf } from "./prompt.js";
import { Risk } from "./risk.js";

/** A closed prompt: one line that expands to the question. */
export function EndedPrompt({ item, lost, tools }: { item: ItemOf<"prompt">; lost: string | undefined; tools: readonly string[] | undefined }) {
  const shared = useShared();
  const { texts, answeredHere, me, memory } = shared;
  const p = item.prompt;
  const [open, setOpen] = useRowState(`ended ${p.request_id}`, false);
  const mine = answeredHere.has(p.request_id) || (me !== undefined && p.ended_by?.kind === "user" && p.ended_by.id === me);
  // Explain a prompt that was open here and was answered in another window.
  const elsewhere = mine && !answeredHere.has(p.request_id) && memory.has(`seen ${p.request_id}`);
  const who = elsewhere ? texts.answeredInOther : mine ? texts.youAnswered : texts.answeredBy(p.ended_by?.name || p.ended_by?.id || texts.someone);
  const draft = memory.get(`draft ${p.request_id}`) as string | undefined;
  if (p.status === "answered" && p.approval) return <Approved prompt={p} who={who} tools={tools ?? []} lost={lost} />;
  let head: ReactNode;
  if (p.status === "answered")
    head = (
      <>
        <Icon name={refused(p) ? "cross" : "check"} size={14} />
        <span className="pl-muted">{who}:</span> <span dir="auto">{answerText(p, shared)}</span>
      </>
    );
  else if (p.status === "expired")
    head = (
      <>
        <Icon name="clock" size={14} />
        <span>{[texts.expired, p.input?.error].filter(Boolean).join(" · ")}</span>
      </>
    );
  else
    head = (
      <>
        <Icon name="dash" size={14} />
        <span>{texts.withdrawnPrompt}</span>
      </>
    );
  return (
    <div className={`pl-prompt pl-ended pl-prompt-${p.status}`} data-prompt={p.request_id}>
      <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
        <summary>
          <span className="pl-ended-q" dir="auto">
            {questionOf(p, texts, true)}
          </span>
          <span className="pl-ended-a">
            {head}
            <time dateTime={p.ended_at}>{texts.moment(p.ended_at)}</time>
          </span>
        </summary>
        {open && (
          <div className="pl-ended-body">
            {p.input?.options && (
              <ul>
                {p.input.options.map((o) => (
                  <li key={o.id}>
                    {o.label}
                    {o.description && <span className="pl-muted"> {o.description}</span>}
                  </li>
                ))}
              </ul>
            )}
            {p.approval?.calls.map((c) => (
              <pre key={c.call_id} dir="ltr" tabIndex={0}>
                {c.tool} {pretty(c.params, hidden)}
              </pre>
            ))}
            {p.permission && <ul>{p.permission.scopes.map((s) => <li key={s}><code>{s}</code></li>)}</ul>}
          </div>
        )}
      </details>
      {lost && (
        <p className="pl-wait pl-small" role="status">
          {lost}
        </p>
      )}
      {(p.status !== "answered" || lost) && draft && (
        <div className="pl-draft">
          {texts.yourDraft} <q>{draft}</q>
        </div>
      )}
    </div>
  );
}

/** An answered approval: each of its calls is one row with the decision, the arguments and the result. */
function Approved({ prompt: p, who, tools, lost }: { prompt: PromptItem; who: string; tools: readonly string[]; lost: string | undefined }) {
  const { store, texts } = useShared();
  return (
    <div className="pl-approved pl-prompt-answered" data-prompt={p.request_id}>
      {p.approval?.calls.map((c) => {
        const d = p.answer?.decisions?.find((x) => x.call_id === c.call_id);
        const id = tools.find((t) => {
          const item = store.getItem(t);
          return item?.kind === "tool" && item.tool.call_id === c.call_id;
        });
        const risk = c.risk && <Risk risk={c.risk} />;
        const decision = (
          <p className="pl-decision">
            <Icon name={d?.approve ? "check" : "cross"} size={14} />
            <span className="pl-muted">{who}:</span> <span dir="auto">{decisionText(d, c.tool, texts)}</span>
            <time dateTime={p.ended_at}>{texts.moment(p.ended_at)}</time>
          </p>
        );
        return id ? <ToolRow key={c.call_id} id={id} note={risk} foot={decision} /> : <Decided key={c.call_id} call={c} decision={d} note={risk} foot={decision} />;
      })}
      {lost && (
        <p className="pl-wait pl-small" role="status">
          {lost}
        </p>
      )}
    </div>
  );
}

/** A call that was denied, or that has not begun. */
function Decided({ call: c, decision: d, note, foot }: { call: ApprovalCall; decision: Decision | undefined; note: ReactNode; foot: ReactNode }) {
  const { texts } = useShared();
  const [open, setOpen] = useRowState(`decided ${c.call_id}`, false);
  const params = d?.params ?? c.params;
  return (
    <details className="pl-tool" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <Icon name="chevron" size={14} />
        <span className="pl-tool-name">{c.tool}</span>
        <span className="pl-summary" dir="auto">
          {d?.reason || paramsSummary(params)}
        </span>
        {note}
        <span className={`pl-state pl-state-${d?.approve ? "ok" : "denied"}`}>
          <Icon name={d?.approve ? "check" : "cross"} size={14} />
          {d?.approve ? texts.approved : texts.denied}
        </span>
      </summary>
      {open && (
        <div className="pl-tool-body">
          {foot}
          {params !== undefined && <Value value={params} label={texts.arguments} keep={`${c.call_id} decided`} />}
        </div>
      )}
    </details>
  );
}

function decisionText(d: Decision | undefined, tool: string, texts: Texts): string {
  const word = d?.approve ? (d.params !== undefined ? texts.approvedEdited : texts.approved) : texts.denied;
  return `${word} ${tool}${d?.reason ? `: ${d.reason}` : ""}`.trim();
}

/** Reports whether everything was denied. */
function refused(p: PromptItem): boolean {
  if (p.permission) return (p.answer?.granted ?? []).length === 0;
  return p.answer?.decisions !== undefined && p.answer.decisions.every((d) => !d.approve);
}

/** An answer as text. */
function answerText(p: PromptItem, { texts }: Shared): string {
  const a = p.answer;
  if (!a) return "";
  if (a.decisions)
    return a.decisions.map((d) => decisionText(d, p.approval?.calls.find((c) => c.call_id === d.call_id)?.tool ?? "", texts)).join(" · ");
  if (p.permission || a.granted || a.denied) {
    const granted = a.granted ?? [];
    const parts = [];
    if (granted.length > 0) parts.push(`${texts.granted(granted.join(", "))}${a.duration ? ` (${texts.durations[a.duration] ?? a.duration})` : ""}`);
    const denied = a.denied?.length ? a.denied : granted.length === 0 ? (p.permission?.scopes ?? []) : [];
    if (denied.length > 0) parts.push(texts.deniedScopes(denied.join(", ")));
    return parts.join(" · ");
  }
  const values = a.values ?? [];
  if (values.length > 0) return values.map((v) => p.input?.options?.find((o) => (o.value || o.id) === v)?.label ?? v).join(", ");
  return a.text || (p.input?.input_type === "oauth_consent" ? texts.consentGiven : texts.skip);
}
