import { useCallback, useEffect, useRef, type RefObject } from "react";
import { ParleyError, type Answer, type ItemOf, type PromptItem } from "@parley-hq/client";
import type { Texts } from "../i18n/texts.js";
import { workstreamName, useRowState, useShared } from "../shared/context.js";
import { focused } from "../shared/focus.js";
import { useConnection, useEverySecond } from "../shared/hooks.js";
import { lazyPart } from "../shared/lazy.js";
import { Countdown } from "./countdown.js";

export const InputForm = lazyPart(() => import("./input.js").then((m) => m.InputForm), <div className="pl-skeleton" />);
export const ApprovalForm = lazyPart(() => import("./approval.js").then((m) => m.ApprovalForm), <div className="pl-skeleton" />);
export const PermissionForm = lazyPart(() => import("./permission.js").then((m) => m.PermissionForm), <div className="pl-skeleton" />);

const EndedPrompt = lazyPart(() => import("./ended.js").then((m) => m.EndedPrompt), <div className="pl-tool pl-ended-wait" />);

/** The props of a prompt's form. */
export interface FormProps {
  id: string;
  disabled: boolean;
  /** Sends the answer; when the server refuses it, error is set. */
  send: (a: Answer) => void;
  error: string | undefined;
}

/** The entry of a prompt; tools are the calls that an answered approval has allowed. */
export function PromptCard({ item, tools }: { item: ItemOf<"prompt">; tools?: readonly string[] | undefined }) {
  const { texts, answer, me, edit } = useShared();
  const p = item.prompt;
  const refused = useRef<HTMLElement>(undefined); // had the focus when its answer was refused
  const [sending, setSending] = useRowState(`sending ${p.request_id}`, false);
  const [error, setError] = useRowState<string | undefined>(`error ${p.request_id}`, undefined);
  // An answer may be refused after the prompt was closed here.
  const [lost, setLost] = useRowState<string | undefined>(`lost ${p.request_id}`, undefined);
  useEffect(() => {
    if (!sending) refused.current?.focus();
    refused.current = undefined;
  }, [sending]);
  const send = (a: Answer, card: Element) => {
    const root = card.getRootNode() as Document | ShadowRoot;
    const from = card.contains(root.activeElement) ? (root.activeElement as HTMLElement) : undefined;
    const entry = card.closest("article");
    // A field that is disabled or removed loses the focus. A focus that was moved elsewhere meanwhile stays there.
    const lostFocus = () => {
      const now = focused();
      return from !== undefined && (!now || now === document.body || card.contains(now));
    };
    // The person continues in the composer, or without a keyboard at the entry.
    const proceed = () => {
      if (!lostFocus()) return;
      if (edit && matchMedia("(pointer: fine)").matches) edit("", []);
      else entry?.focus({ preventScroll: true });
    };
    setSending(true);
    setError(undefined);
    answer(p.request_id, a).then(
      () => {
        setSending(false);
        proceed();
      },
      (err: unknown) => {
        setSending(false);
        if (err instanceof ParleyError && (err.code === "conflict" || err.code === "gone")) {
          setLost(err.details.answered_by ? texts.answeredElsewhere(nameOf(err.details.answered_by, me, texts)) : texts.tooLate);
          proceed();
        } else {
          if (lostFocus()) refused.current = from;
          setError(err instanceof Error ? err.message : String(err));
        }
      },
    );
  };
  if (p.status === "open") return <OpenPrompt item={item} sending={sending} error={error} lost={lost} answer={send} />;
  return <EndedPrompt item={item} lost={lost} tools={tools} />;
}

/** The question of a prompt in one text; with `listed` the scopes of a permission are shown beside it. */
export function questionOf(p: Pick<PromptItem, "input" | "approval" | "permission">, texts: Texts, listed = false): string {
  if (p.input) return p.input.input_type === "oauth_consent" && p.input.text === p.input.url ? texts.permissionTitle : p.input.text;
  if (p.approval) return p.approval.text || texts.mayRun(p.approval.calls[0]?.tool ?? "");
  return texts.permissionTitle + (p.permission && !listed ? `: ${p.permission.scopes.join(", ")}` : "");
}

function OpenPrompt(props: { item: ItemOf<"prompt">; sending: boolean; error: string | undefined; lost: string | undefined; answer: (a: Answer, card: Element) => void }) {
  const { item, sending, error, lost } = props;
  const shared = useShared();
  const { store, texts, mode } = shared;
  const p = item.prompt;
  const connection = useConnection(store);
  const deadline = p.deadline ? Date.parse(p.deadline) : undefined;
  const late = useEverySecond(() => deadline !== undefined && store.serverNow() >= deadline, deadline !== undefined);
  const card = useRef<HTMLDivElement>(null);
  const armed = useArmed(card, p.input === undefined);
  useEffect(() => {
    const el = card.current;
    if (!el) return;
    // Of a card that is taller than the list, never more than a part is shown.
    const watch = new IntersectionObserver((seen) => shared.inView.set(p.request_id, seen[seen.length - 1]?.isIntersecting ?? false), { threshold: 0.2 });
    watch.observe(el);
    return () => {
      watch.disconnect();
      shared.inView.set(p.request_id, false);
    };
  }, [shared.inView, p.request_id]);
  shared.memory.set(`seen ${p.request_id}`, true);
  useEffect(() => EndedPrompt.preload(), []);
  const send = (a: Answer) => {
    if (armed() && !sending && card.current) props.answer(a, card.current);
  };
  const form: FormProps = { id: p.request_id, disabled: sending || late || lost !== undefined || mode === "read-only", send, error };
  const required = p.input ? p.input.required !== false : true;
  const who = item.workstream_id ? workstreamName(shared, item.workstream_id) : item.actor?.name || item.actor?.id || texts.agent;
  return (
    <div ref={card} className={`pl-prompt pl-prompt-open${late ? " pl-late" : ""}`} data-prompt={p.request_id}>
      <div className="pl-prompt-head">
        <div className="pl-grow">
          <div className="pl-question" dir="auto" id={`q-${p.request_id}`}>
            {questionOf(p, texts, true)}
          </div>
          <div className="pl-asked">
            {texts.askedBy(who)} · {required ? texts.neededToContinue : texts.optional}
          </div>
        </div>
        {deadline !== undefined && <Countdown from={Date.parse(item.at ?? "") || deadline} deadline={deadline} now={() => store.serverNow()} />}
      </div>
      {p.input ? (
        <InputForm {...form} input={p.input} />
      ) : p.approval ? (
        <ApprovalForm {...form} approval={p.approval} />
      ) : p.permission ? (
        <PermissionForm {...form} permission={p.permission} />
      ) : null}
      <div className="pl-prompt-foot" aria-live="polite">
        {lost ? (
          <span className="pl-wait">{lost}</span>
        ) : late ? (
          texts.checking
        ) : sending ? (
          connection.state === "offline" ? texts.willSend : texts.sending
        ) : connection.state === "offline" && mode !== "read-only" ? (
          texts.willSend
        ) : null}
      </div>
    </div>
  );
}

const still = 500;

/**
 * Prevents accidental answers: a card ignores clicks in its first half second, and a card that approves something also for
 * half a second after it was moved.
 */
function useArmed(card: RefObject<HTMLElement | null>, moves: boolean): () => boolean {
  const since = useRef(performance.now());
  useEffect(() => {
    since.current = performance.now();
    let top = card.current?.getBoundingClientRect().top ?? 0;
    const look = () => {
      const now = card.current?.getBoundingClientRect().top ?? top;
      if (moves && Math.abs(now - top) > 4) since.current = performance.now();
      top = now;
      card.current?.toggleAttribute("data-armed", performance.now() - since.current >= still);
    };
    const timer = setInterval(look, 100);
    return () => clearInterval(timer);
  }, [card, moves]);
  return useCallback(() => performance.now() - since.current >= still, []);
}

/** The name of the person who answered first, from the error's details. */
function nameOf(v: unknown, me: string | undefined, texts: Texts): string {
  const a = typeof v === "string" ? { id: v } : (v as { name?: string; id?: string } | undefined);
  if (me !== undefined && a?.id === me) return texts.otherWindow;
  return a?.name ?? a?.id ?? texts.someone;
}
