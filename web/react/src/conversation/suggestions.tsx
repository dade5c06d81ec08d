import { useEffect, useId, useLayoutEffect, useRef, useState } from "react";
import type { AgentCommand } from "@parley-hq/client";

/** A name that can follow @: a person or a file of the session. */
export interface Mention {
  name: string;
  /** What is written into the message; without it the name. */
  insert?: string;
  about?: string;
}

export interface SuggestionLabels {
  commands: string;
  mentions: string;
  /** Read out when the number of suggestions changes. */
  found: (n: number) => string;
}

interface Option {
  name: string;
  input?: string | undefined;
  about?: string | undefined;
  insert: string;
}

/** The word at the caret that is being completed. */
interface Word {
  kind: "/" | "@";
  text: string;
  from: number;
  to: number;
}

const most = 50;

/** The word that ends at the caret, if it is a command at the beginning of the text or a mention. */
export function wordAt(text: string, caret: number): Word | undefined {
  const before = text.slice(0, caret);
  const command = /^\/\S*$/.exec(before);
  if (command) return { kind: "/", text: before, from: 0, to: caret };
  const mention = /(?:^|\s)@([^\s@]*)$/.exec(before);
  return mention ? { kind: "@", text: mention[1] ?? "", from: caret - (mention[1] ?? "").length - 1, to: caret } : undefined;
}

/** The commands that begin with the word, then those that contain it. */
export function commandsFor(all: readonly AgentCommand[], word: string): Option[] {
  const want = word.toLowerCase();
  const rest = all.filter((c) => !c.name.toLowerCase().startsWith(want) && c.name.toLowerCase().includes(want.slice(1)));
  return [...all.filter((c) => c.name.toLowerCase().startsWith(want)), ...rest].map((c) => ({ name: c.name, input: c.input, about: c.description, insert: c.input ? `${c.name} ` : c.name }));
}

export function mentionsFor(all: readonly Mention[], word: string): Option[] {
  const want = word.toLowerCase();
  return all.filter((m) => `${m.name} ${m.insert ?? ""}`.toLowerCase().includes(want)).map((m) => ({ name: m.name, about: m.about, insert: `${m.insert ?? m.name} ` }));
}

/**
 * Completes commands and mentions in the composer that has this component in one of its slots: / at the beginning of the
 * text lists the commands of the agent, @ lists people and files. Arrows choose, Enter and Tab insert, Esc closes.
 */
export function ComposerSuggestions({ commands, mentions, labels }: { commands: readonly AgentCommand[]; mentions: () => Promise<readonly Mention[]>; labels: SuggestionLabels }) {
  const here = useRef<HTMLSpanElement>(null);
  const list = useRef<HTMLUListElement>(null);
  const id = useId();
  const [word, setWord] = useState<Word>();
  const [names, setNames] = useState<readonly Mention[]>([]);
  const [chosen, setChosen] = useState(0);
  const options = (word?.kind === "/" ? commandsFor(commands, word.text) : word ? mentionsFor(names, word.text) : []).slice(0, most);
  // A complete name needs no suggestion.
  const open = options.length > 0 && !(options.length === 1 && options[0]?.insert === word?.text);
  const at = Math.min(chosen, options.length - 1);

  const area = () => here.current?.closest("form")?.querySelector("textarea");
  const insert = (o: Option | undefined) => {
    const field = area();
    if (!field || !word || !o) return;
    field.setRangeText(o.insert, word.from, word.to, "end");
    field.dispatchEvent(new Event("input", { bubbles: true }));
    setWord(undefined);
    field.focus();
  };
  const onKey = (e: KeyboardEvent) => {
    if (!open || e.isComposing || e.ctrlKey || e.metaKey || e.altKey) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 }[e.key];
    if (to !== undefined) setChosen((to + options.length) % options.length);
    else if (e.key === "Escape") setWord(undefined);
    // Enter sends a command that is written out.
    else if (e.key === "Tab" && !e.shiftKey || (e.key === "Enter" && !e.shiftKey && options[at]?.name !== word?.text)) insert(options[at]);
    else {
      if (e.key === "Enter") setWord(undefined);
      return;
    }
    e.preventDefault();
    e.stopPropagation();
  };
  const latest = useRef({ onKey, mentions });
  latest.current = { onKey, mentions };

  useEffect(() => {
    const field = area();
    if (!field) return;
    let asked = false;
    const look = () => {
      const next = field.selectionStart === field.selectionEnd ? wordAt(field.value, field.selectionStart) : undefined;
      if (next?.kind === "@" && !asked) void latest.current.mentions().then(setNames, () => {});
      asked = next?.kind === "@";
      setWord(next);
      setChosen(0);
    };
    const close = () => setWord(undefined);
    const key = (e: KeyboardEvent) => latest.current.onKey(e);
    field.addEventListener("input", look);
    field.addEventListener("keydown", key);
    field.addEventListener("blur", close);
    field.form?.addEventListener("submit", close);
    return () => {
      field.removeEventListener("input", look);
      field.removeEventListener("keydown", key);
      field.removeEventListener("blur", close);
      field.form?.removeEventListener("submit", close);
    };
  }, []);
  useLayoutEffect(() => {
    const field = area();
    if (!field || !open) return;
    field.setAttribute("aria-autocomplete", "list");
    field.setAttribute("aria-controls", id);
    field.setAttribute("aria-activedescendant", `${id}-${at}`);
    const ul = list.current;
    ul?.children[at]?.scrollIntoView({ block: "nearest" });
    const around = ul?.offsetParent?.getBoundingClientRect();
    const composer = field.form?.getBoundingClientRect();
    if (ul && around && composer) Object.assign(ul.style, { left: `${composer.left - around.left}px`, width: `${composer.width}px`, bottom: `${around.bottom - composer.top + 4}px` });
    return () => ["aria-autocomplete", "aria-controls", "aria-activedescendant"].forEach((a) => field.removeAttribute(a));
  }, [open, at, id, word]);

  return (
    <span ref={here} className="pl-suggestions">
      <span className="pl-hidden" role="status">
        {open && labels.found(options.length)}
      </span>
      {open && (
        <ul ref={list} id={id} role="listbox" tabIndex={0} aria-label={word?.kind === "/" ? labels.commands : labels.mentions}>
          {options.map((o, i) => (
            <li
              key={o.insert}
              id={`${id}-${i}`}
              role="option"
              aria-selected={i === at}
              onPointerDown={(e) => e.preventDefault()} // the field keeps the focus
              onPointerMove={() => setChosen(i)}
              onClick={() => insert(o)}
            >
              <strong dir="auto">{o.name}</strong>
              {o.input && <code>{o.input}</code>}
              <span dir="auto">{o.about}</span>
            </li>
          ))}
        </ul>
      )}
    </span>
  );
}
