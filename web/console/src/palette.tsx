import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import type { ParleyClient, Session } from "@parley-hq/client";
import { Icon, type IconName } from "@parley-hq/react";
import { useLanguage } from "./locale.js";
import { pathOf } from "./route.js";
import "./palette.css";

/** Something that the palette does. */
export interface Command {
  name: string;
  key?: string;
  icon: IconName;
  run: () => void;
}

const most = 12;

/** A list of commands and conversations, narrowed by typing. */
export function Palette({ client, sessions, commands, go, close }: { client: ParleyClient; sessions: readonly Session[]; commands: readonly Command[]; go: (path: string) => void; close: () => void }) {
  const { words, texts } = useLanguage();
  const dialog = useRef<HTMLDialogElement>(null);
  const [q, setQ] = useState("");
  const [at, setAt] = useState(0);
  const [found, setFound] = useState<Session[]>([]);
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    setAt(0);
    setFound([]);
    if (q.trim() === "") return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      client.list({ q, limit: most }, { signal: stop.signal }).then((p) => setFound(p.sessions), () => {});
    }, 150);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [client, q]);

  const has = (text: string) => q.toLowerCase().split(/\s+/).every((w) => text.toLowerCase().includes(w));
  const titleOf = (s: Session) => s.title || s.heading || words.newConversation;
  const known = sessions.filter((s) => has(titleOf(s)));
  const all = [...known, ...found.filter((f) => !known.some((s) => s.session_id === f.session_id))].slice(0, most);
  const doable = commands.filter((c) => has(c.name));
  const options: (Command & { about?: string })[] = [
    ...(q ? [] : doable),
    ...all.map((s) => ({ name: titleOf(s), about: texts.ago(s.updated_at), icon: "chevron" as const, run: () => go(pathOf(s.session_id)) })),
    ...(q ? doable : []),
  ];
  const chosen = Math.min(at, options.length - 1);
  const run = (o: Command | undefined) => {
    if (!o) return;
    dialog.current?.close();
    o.run();
  };
  const onKeyDown = (e: KeyboardEvent) => {
    const to = { ArrowDown: chosen + 1, ArrowUp: chosen - 1, Home: 0, End: options.length - 1 }[e.key];
    if (e.key === "Enter" && !e.nativeEvent.isComposing) run(options[chosen]);
    else if (to !== undefined && options.length > 0) setAt((to + options.length) % options.length);
    else return;
    e.preventDefault();
  };
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => void list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }), [chosen, options.length]);
  return (
    <dialog ref={dialog} className="co-palette" aria-label={words.palette} onClose={close} onClick={(e) => e.target === e.currentTarget && e.currentTarget.close()}>
      <div className="co-palette-field pl-ringed">
        <Icon name="search" />
        <input
          className="pl-bare"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={chosen >= 0 ? `palette-${chosen}` : undefined}
          aria-label={words.palette}
          placeholder={words.paletteHint}
          autoFocus
          value={q}
          onChange={(e) => setQ(e.target.value)}
          onKeyDown={onKeyDown}
        />
      </div>
      <ul ref={list} id="palette-list" role="listbox" aria-label={words.palette}>
        {options.map((o, i) => (
          <li key={i} id={`palette-${i}`} role="option" aria-selected={i === chosen} onClick={() => run(o)} onMouseMove={() => setAt(i)}>
            <Icon name={o.icon} />
            <span className="pl-grow" dir="auto">
              {o.name}
            </span>
            {o.about && <span className="co-sub">{o.about}</span>}
            {o.key && <kbd>{o.key}</kbd>}
          </li>
        ))}
      </ul>
      {options.length === 0 && <p className="co-note">{words.nothingFound}</p>}
    </dialog>
  );
}
