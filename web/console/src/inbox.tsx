import { useCallback, useEffect, useRef, useState, type ReactNode } from "react";
import type { ParleyClient, Prompt, Session } from "@parley-hq/client";
import { clock, Icon, questionOf, useEverySecond } from "@parley-hq/react";
import { PromptView } from "@parley-hq/react/prompt";
import "./inbox.css";
import { follow } from "./list.js";
import { useLanguage } from "./locale.js";
import { pathOf } from "./route.js";
import type { SessionPrompts } from "./sessions.js";

/** A prompt in the list; `answered` here, it stays until the person leaves the inbox. */
interface Asked {
  key: string;
  session: Session;
  prompt: Prompt;
  answered?: boolean;
}

/** Reports whether a prompt is answered by approving or denying. */
const decidable = ({ prompt }: Asked): boolean => Boolean(prompt.approval ?? prompt.permission);

const keyOf = (session: string, request: string): string => `${session} ${request}`;

/** The rows after a reload: known ones keep their place, new ones follow in the order of their deadlines. */
export function arrange(old: readonly Asked[], open: readonly SessionPrompts[], chosen: string | undefined): Asked[] {
  const now = new Map(open.flatMap(({ session, prompts }) => prompts.map((prompt) => [keyOf(session.session_id, prompt.request_id), { session, prompt }] as const)));
  const kept = old.flatMap((a) => {
    const found = now.get(a.key);
    now.delete(a.key);
    if (a.answered || (!found && a.key === chosen)) return [a];
    return found ? [{ ...a, ...found }] : [];
  });
  const due = (p: Prompt) => (p.deadline ? Date.parse(p.deadline) : Number.POSITIVE_INFINITY);
  const fresh = [...now].map(([key, a]) => ({ key, ...a }));
  fresh.sort((a, b) => (due(a.prompt) === due(b.prompt) ? Date.parse(a.prompt.asked_at) - Date.parse(b.prompt.asked_at) : due(a.prompt) - due(b.prompt)));
  return [...kept, ...fresh];
}

/** All open prompts of all conversations. One of them is chosen: its form is shown below its question. */
export function Inbox(p: { client: ParleyClient; open: SessionPrompts[] | undefined; me: string | undefined; menu: ReactNode; go: (path: string) => void; changed: () => void }) {
  const { words } = useLanguage();
  const { open, changed } = p;
  const [rows, setRows] = useState<Asked[]>();
  const [wanted, setWanted] = useState<string>();
  const box = useRef<HTMLOListElement>(null);
  const chosen = rows?.find((a) => a.key === wanted)?.key ?? rows?.find((a) => !a.answered)?.key;
  const latest = useRef({ rows, chosen, go: p.go });
  latest.current = { rows, chosen, go: p.go };
  useEffect(() => {
    if (open) setRows((old) => arrange(old ?? [], open, latest.current.chosen));
  }, [open]);

  const rowOf = (key: string | undefined) => [...(box.current?.children ?? [])].find((el) => (el as HTMLElement).dataset.key === key);
  const choose = useCallback((key: string, form: boolean) => {
    setWanted(key);
    // The form is loaded when it is first shown.
    let tries = 0;
    const focus = () => {
      const row = rowOf(key);
      const field = row?.querySelector<HTMLElement>(".co-ask-body :is(input, textarea, select, button:not(.pl-mini)):not(:disabled)");
      if (form && !field && tries++ < 40) return void setTimeout(focus, 50);
      (form ? field : row?.querySelector<HTMLElement>(".co-ask-row"))?.focus();
      row?.scrollIntoView({ block: "nearest" });
    };
    setTimeout(focus);
  }, []);
  const step = useCallback(
    (by: number) => {
      const list = latest.current.rows?.filter((a) => !a.answered) ?? [];
      const at = list.findIndex((a) => a.key === latest.current.chosen);
      const next = list[Math.min(list.length - 1, Math.max(0, at + by))];
      if (next) choose(next.key, false);
    },
    [choose],
  );
  const answered = useCallback(
    (key: string) => {
      const list = latest.current.rows ?? [];
      const at = list.findIndex((a) => a.key === key);
      const next = [...list.slice(at + 1), ...list.slice(0, at)].find((a) => !a.answered);
      setRows(list.map((a) => (a.key === key ? { ...a, answered: true } : a)));
      if (latest.current.chosen === key) {
        // Keep the focus of a keyboard in the list.
        if (next && rowOf(key)?.contains(document.activeElement)) choose(next.key, false);
        else setWanted(next?.key);
      }
      changed();
    },
    [choose, changed],
  );

  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const at = e.target instanceof HTMLElement ? e.target : document.body;
      if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing || document.querySelector("dialog[open]")) return;
      const { rows, chosen, go } = latest.current;
      const one = rows?.find((a) => a.key === chosen);
      const row = rowOf(chosen);
      if (e.key === "Escape" && at.closest(".co-ask-body")) return row?.querySelector<HTMLElement>(".co-ask-row")?.focus();
      if (!one || at.matches("textarea, select, input:not([type=radio], [type=checkbox])")) return;
      if (e.key === "j" || e.key === "k") step(e.key === "j" ? 1 : -1);
      else if (e.key === "o") go(pathOf(one.session.session_id));
      else if (e.key === "Enter" && !at.closest("button, a, input, summary")) choose(one.key, true);
      else if (e.key === "a" && decidable(one)) row?.querySelector<HTMLElement>(".pl-prompt-open .pl-primary")?.click();
      else if (e.key === "d" && decidable(one)) row?.querySelector<HTMLElement>(".pl-prompt-open .pl-deny")?.click();
      else return;
      e.preventDefault();
    };
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  }, [choose, step]);

  const count = rows?.filter((a) => !a.answered).length ?? 0;
  const decides = rows?.some((a) => a.key === chosen && decidable(a));
  return (
    <div className="co-inbox">
      <header className="co-head">
        {p.menu}
        <h2>{words.inbox}</h2>
        {count > 0 && <span className="co-sub">{words.needAnswer(count)}</span>}
        <span className="pl-grow" />
        {count > 0 && (
          <span className="co-hints" aria-hidden="true">
            {words.inboxKeys.filter(([k]) => decides || (k !== "a" && k !== "d")).map(([k, what]) => (
              <span key={k}>
                <kbd>{k}</kbd> {what}
              </span>
            ))}
          </span>
        )}
      </header>
      <div className="co-inbox-body">
        {rows && count === 0 && (
          <div className="co-inbox-empty">
            <Icon name="check" size={24} />
            <h3>{words.inboxEmpty}</h3>
            <p>{words.inboxEmptyNote}</p>
          </div>
        )}
        <ol ref={box} aria-label={words.inboxHint}>
          {rows?.map((a) => (
            <Row key={a.key} asked={a} client={p.client} me={p.me} chosen={a.key === chosen} choose={choose} answered={answered} go={p.go} />
          ))}
        </ol>
      </div>
    </div>
  );
}

function Row({ asked: a, client, me, chosen, choose, answered, go }: { asked: Asked; client: ParleyClient; me: string | undefined; chosen: boolean; choose: (key: string, form: boolean) => void; answered: (key: string) => void; go: (path: string) => void }) {
  const { words, texts } = useLanguage();
  const { session: s, prompt } = a;
  const onAnswered = useCallback(() => answered(a.key), [answered, a.key]);
  const agent = prompt.agent || s.agent;
  const others = [{ actor: s.owner, role: "owner" }, ...(s.members ?? [])].filter((m) => m.role !== "viewer" && m.actor.kind === "user" && m.actor.id !== me).map((m) => m.actor.name || m.actor.id);
  const names = [...new Set(others)];
  const path = pathOf(s.session_id);
  return (
    <li className={`co-ask${chosen && !a.answered ? " co-ask-chosen" : ""}${a.answered ? " co-ask-done" : ""}`} data-key={a.key}>
      <button type="button" className="co-ask-row" aria-expanded={a.answered ? undefined : chosen} disabled={a.answered} onClick={(e) => choose(a.key, e.detail === 0)}>
        <span className="co-ask-text" dir="auto">
          {questionOf(prompt, texts)}
        </span>
        <span className="co-ask-time">
          {a.answered ? (
            <>
              <Icon name="check" size={14} /> {words.answeredHere}
            </>
          ) : (
            <Left prompt={prompt} now={() => client.serverNow()} />
          )}
        </span>
        <span className="co-ask-about">
          <strong>{agent}</strong>
          <span dir="auto">{s.title || s.heading || words.newConversation}</span>
          {names.length > 0 && <span>{words.alsoAnswer(names.join(", "))}</span>}
          <span>{texts.ago(prompt.asked_at)}</span>
        </span>
      </button>
      {chosen && !a.answered && (
        <div className="co-ask-body">
          <PromptView client={client} session={s.session_id} prompt={prompt} messages={texts} me={me} onAnswered={onAnswered} />
          <a className="co-ask-open" href={path} onClick={(e) => follow(e, go)}>
            {words.openConversation} <Icon name="chevron" size={14} />
          </a>
        </div>
      )}
    </li>
  );
}

/** The time until the deadline. */
function Left({ prompt: p, now }: { prompt: Prompt; now: () => number }) {
  const { words, texts } = useLanguage();
  const deadline = p.deadline ? Date.parse(p.deadline) : undefined;
  const left = useEverySecond(() => (deadline === undefined ? 0 : Math.ceil((deadline - now()) / 1000)), deadline !== undefined);
  if (deadline === undefined) return null;
  const soon = left * 1000 <= 0.2 * (deadline - Date.parse(p.asked_at));
  return (
    <span className={soon ? "co-left co-err" : "co-left"} title={texts.until(texts.moment(p.deadline))}>
      {left > 0 ? texts.timeLeft(clock(left)) : words.timeOver}
    </span>
  );
}
