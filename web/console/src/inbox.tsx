import { useCallback, useEffect, useRef, useState, type ReactNode } from "react";
import type { Event, ParleyClient, Prompt, Session } from "@parley-hq/client";
import { clock, Icon, questionOf, useEverySecond } from "@parley-hq/react";
import { PromptView } from "@parley-hq/react/prompt";
import "./inbox.css";
import { follow } from "./list.js";
import { useLanguage } from "./locale.js";
import { questionPath } from "./route.js";
import type { SessionPrompts } from "./sessions.js";

/** A prompt in the list. With `ended`, how it was answered here or that it ended elsewhere, it stays until the person leaves the inbox. */
interface Asked {
  key: string;
  session: Session;
  prompt: Prompt;
  ended?: "approved" | "denied" | "answered" | "elsewhere";
}

/** How an answer ends a prompt. */
function endOf(e: Event): Asked["ended"] {
  if (e.type === "user.approval_response") return e.payload.decisions.some((d) => d.approve) ? "approved" : "denied";
  if (e.type === "user.permission_response") return e.payload.granted.length > 0 ? "approved" : "denied";
  return "answered";
}

const endIcons = { approved: "check", denied: "cross", answered: "check", elsewhere: "dash" } as const;

/** Reports whether a prompt is answered by approving or denying. */
const decidable = ({ prompt }: Asked): boolean => Boolean(prompt.approval ?? prompt.permission);

const keyOf = (session: string, request: string): string => `${session} ${request}`;

/** The rows after a reload: known ones keep their place, new ones follow in the order of their deadlines. The chosen one stays when it has ended. */
export function arrange(old: readonly Asked[], open: readonly SessionPrompts[], chosen: string | undefined): Asked[] {
  const now = new Map(open.flatMap(({ session, prompts }) => prompts.map((prompt) => [keyOf(session.session_id, prompt.request_id), { session, prompt }] as const)));
  const kept = old.flatMap((a) => {
    const found = now.get(a.key);
    now.delete(a.key);
    if (a.ended) return [a];
    if (found) return [{ ...a, ...found }];
    return a.key === chosen ? [{ ...a, ended: "elsewhere" as const }] : [];
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
  const done = useRef<HTMLHeadingElement>(null);
  const finished = useRef(false); // the last one was answered with the keyboard
  const chosen = rows?.find((a) => a.key === wanted)?.key ?? rows?.find((a) => !a.ended)?.key;
  const latest = useRef({ rows, chosen, go: p.go });
  latest.current = { rows, chosen, go: p.go };
  useEffect(() => {
    if (!open) return;
    setWanted(latest.current.chosen); // it stays chosen when it ends elsewhere
    setRows((old) => arrange(old ?? [], open, latest.current.chosen));
  }, [open]);

  const rowOf = (key: string | undefined) => [...(box.current?.children ?? [])].find((el) => (el as HTMLElement).dataset.key === key);
  const choose = useCallback((key: string, form: boolean) => {
    setWanted(key);
    // The form is loaded when it is first shown; then the row has its height, and can be brought into view.
    let tries = 0;
    const focus = () => {
      const row = rowOf(key);
      if (tries === 0 && !form) row?.querySelector<HTMLElement>(".co-ask-row")?.focus();
      const body = row?.querySelector(".co-ask-body");
      const field = body?.querySelector<HTMLElement>(":is(input, textarea, select, button:not(.pl-mini, .pl-link)):not(:disabled)");
      if (!field && tries++ < 40 && (body || tries < 5)) return void setTimeout(focus, 50);
      if (form) field?.focus();
      if (body) row?.scrollIntoView({ block: "nearest" });
    };
    setTimeout(focus);
  }, []);
  const step = useCallback(
    (by: number) => {
      const list = latest.current.rows ?? [];
      const at = list.findIndex((a) => a.key === latest.current.chosen);
      const next = by > 0 ? list.slice(at + 1) : list.slice(0, Math.max(0, at)).reverse();
      const to = next.find((a) => !a.ended) ?? list[at];
      if (to) choose(to.key, false);
    },
    [choose],
  );
  const answered = useCallback(
    (key: string, e: Event) => {
      const list = latest.current.rows ?? [];
      const at = list.findIndex((a) => a.key === key);
      const next = [...list.slice(at + 1), ...list.slice(0, at)].find((a) => !a.ended);
      setRows(list.map((a) => (a.key === key ? { ...a, ended: endOf(e) } : a)));
      if (latest.current.chosen === key) {
        // Keep the focus of a keyboard in the list. A field that is disabled while it is sent has lost it.
        const lost = document.activeElement === document.body || rowOf(key)?.contains(document.activeElement);
        if (next && lost) choose(next.key, false);
        else setWanted(next?.key);
        finished.current = !next && lost === true;
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
      else if (e.key === "o") go(questionPath(one.session.session_id, one.prompt));
      else if (e.key === "Enter" && !at.closest("button, a, input, summary")) choose(one.key, true);
      // A key that is held down decides one prompt, not the next ones too.
      else if (e.repeat) return;
      else if (e.key === "a" && decidable(one)) row?.querySelector<HTMLElement>(".pl-prompt-open .pl-primary")?.click();
      else if (e.key === "d" && decidable(one)) row?.querySelector<HTMLElement>(".pl-prompt-open .pl-deny")?.click();
      else return;
      e.preventDefault();
    };
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  }, [choose, step]);

  const count = rows?.filter((a) => !a.ended).length ?? 0;
  useEffect(() => {
    if (count === 0 && finished.current) done.current?.focus();
    finished.current = false;
  }, [count]);
  const decides = rows?.some((a) => a.key === chosen && !a.ended && decidable(a));
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
            <h3 ref={done} tabIndex={-1}>{words.inboxEmpty}</h3>
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

function Row({ asked: a, client, me, chosen, choose, answered, go }: { asked: Asked; client: ParleyClient; me: string | undefined; chosen: boolean; choose: (key: string, form: boolean) => void; answered: (key: string, e: Event) => void; go: (path: string) => void }) {
  const { words, texts } = useLanguage();
  const { session: s, prompt } = a;
  const onAnswered = useCallback((e: Event) => answered(a.key, e), [answered, a.key]);
  // The form of a prompt that ended elsewhere says how it ended.
  const expanded = chosen && (!a.ended || a.ended === "elsewhere");
  const ends = { approved: texts.approved, denied: texts.denied, answered: words.answeredHere, elsewhere: words.notOpen };
  const agent = prompt.agent || s.agent;
  const others = [{ actor: s.owner, role: "owner" }, ...(s.members ?? [])].filter((m) => m.role !== "viewer" && m.actor.kind === "user" && m.actor.id !== me).map((m) => m.actor.name || m.actor.id);
  const names = [...new Set(others)];
  const path = questionPath(s.session_id, prompt);
  return (
    <li className={`co-ask pl-ringed${expanded ? " co-ask-chosen" : ""}${a.ended ? " co-ask-done" : ""}`} data-key={a.key}>
      <button type="button" className="co-ask-row pl-bare" aria-expanded={a.ended ? undefined : chosen} disabled={Boolean(a.ended) && !expanded} onClick={(e) => choose(a.key, e.detail === 0)}>
        <span className="co-ask-text" dir="auto">
          {questionOf(prompt, texts)}
        </span>
        <span className="co-ask-time">
          {a.ended ? (
            <>
              <Icon name={endIcons[a.ended]} size={14} /> {ends[a.ended]}
            </>
          ) : (
            <Left prompt={prompt} now={() => client.serverNow()} />
          )}
        </span>
        <span className="co-ask-about">
          <strong>{agent}</strong>
          <span dir="auto">{s.title || s.heading || words.newConversation}</span>
          {names.length > 0 && <span>{words.alsoAnswer(names.join(", "))}</span>}
          <time dateTime={prompt.asked_at} title={texts.moment(prompt.asked_at)}>
            {texts.ago(prompt.asked_at)}
          </time>
        </span>
      </button>
      {expanded && (
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
