import { forwardRef, useCallback, useEffect, useImperativeHandle, useMemo, useRef, useState } from "react";
import { headingOf, type Part } from "@parley-hq/client";
import { itemAt } from "../entries/itemat.js";
import type { UploadRules } from "../files/uploads.js";
import { english, type Texts } from "../i18n/texts.js";
import { useSession } from "../shared/hooks.js";
import { Composer, type ComposerHandle } from "./composer.js";
import type { ConversationHandle, ConversationProps } from "./props.js";
import { SessionView, type Inner } from "./sessionview.js";
import { Empty } from "./start.js";

/** A conversation with an agent: entries, prompts, composer, plan, work, files, raw events. */
export const Conversation = forwardRef<ConversationHandle, ConversationProps>(function Conversation(p, ref) {
  const texts = useMemo<Texts>(() => ({ ...english, ...p.messages }), [p.messages]);
  const [begun, setBegun] = useState<string>();
  const id = p.session ?? begun;
  const store = useSession(p.client, id);
  const composer = useRef<ComposerHandle>(null);
  const starting = useRef<Promise<string>>(undefined);
  useEffect(() => {
    starting.current = undefined;
    if (p.session) setBegun(undefined);
  }, [p.session]);

  const latest = useRef(p);
  latest.current = p;
  const target = useRef<string>(undefined); // the workstream that the list is filtered by
  const inner = useRef<Inner>(null);
  const entered = useRef<string>(undefined);
  const focused = useRef(false);
  /** Creates the session once. */
  const create = useCallback((text: string, files: Part[] = []): Promise<string> => {
    const { session, start, client, agent } = latest.current;
    if (session) return Promise.resolve(session);
    const made = (starting.current ??= start ? start(text, files) : client.create({ ...(agent ? { agent } : {}), ...(text ? { title: headingOf(text) } : {}) }).then((s) => s.session_id));
    made.catch(() => (starting.current = undefined));
    return made;
  }, []);
  const send = useCallback(
    async (text: string, files: Part[] = []) => {
      const o = latest.current;
      const parts = [...files, ...(typeof o.attached === "function" ? o.attached() : (o.attached ?? []))];
      const to = await create(text, parts);
      const context = o.context?.();
      // A later error is shown at the message, with a button to retry.
      void o.client.say(to, { text, ...(parts.length > 0 ? { content: [{ type: "text", text }, ...parts] } : {}), ...(context !== undefined ? { context } : {}) }, target.current ? { workstream_id: target.current } : {}).catch(() => {});
      o.onSent?.(text, parts);
      inner.current?.end();
      if (latest.current.session || entered.current === to) return;
      // Show the new session with the message in it.
      entered.current = to;
      focused.current = composer.current?.moveTo(to) ?? false;
      setBegun(to);
      latest.current.onStart?.(to);
    },
    [create],
  );

  const composes = !p.hideComposer && (p.mode ?? "interactive") === "interactive";
  const edit = useCallback((text: string, files: Part[]) => composer.current?.edit(text, files), []);
  const empty = p.slots?.empty ?? <Empty texts={texts} intro={p.intro} agent={p.agent ?? ""} about={p.about ?? ""} starters={p.starters ?? []} onStart={(t) => void send(t)} can={(p.mode ?? "interactive") === "interactive"} />;
  const composerFor = (running: boolean, stopping: boolean, queues: boolean, agent: string, stop: () => void) =>
    !composes ? null : (
      <Composer
        handle={composer}
        client={p.client}
        texts={texts}
        placeholder={p.placeholder ?? texts.placeholder(agent)}
        running={running}
        stopping={stopping}
        queues={queues}
        draftKey={id ?? "new"}
        uploads={p.uploads ?? defaultUploads}
        autoFocus={(p.autoFocus ?? false) || focused.current}
        session={id}
        create={create}
        send={send}
        stop={stop}
        sendText={id ? undefined : p.startText}
        busy={p.busy ?? false}
        attached={Array.isArray(p.attached) ? p.attached : nothing}
        onDetach={p.onDetach}
        className={p.classNames?.composer}
        inputClassName={p.classNames?.input}
        start={p.slots?.composerStart}
        end={p.slots?.composerEnd}
      />
    );
  useEffect(() => {
    if (p.draft) composer.current?.set(p.draft);
  }, [p.draft]);

  useImperativeHandle(
    ref,
    () => ({
      send,
      stop: async () => inner.current?.store.stop({ workstreams: true }),
      answer: async (request, answer) => inner.current?.answer(request, answer),
      steer: async (workstream, text, command = "add_instruction") => {
        const s = inner.current?.store;
        if (s) await latest.current.client.steer(s.id, workstream, command, text);
      },
      scrollTo: (item) => {
        if (typeof item === "string") return inner.current?.show(item);
        const s = inner.current?.store;
        if (s) void itemAt(s, item).then((found) => found && inner.current?.show(found));
      },
      openInspector: (seq) => inner.current?.inspect(seq),
      focus: () => composer.current?.focus(),
    }),
    [send],
  );

  return (
    <div
      className={`pl-root${p.className ? ` ${p.className}` : ""}`}
      data-theme={p.theme && p.theme !== "auto" ? p.theme : undefined}
      data-density={p.density ?? "comfortable"}
      data-width={p.width ?? "measure"}
      data-layout={p.layout ?? "page"}
      lang={p.locale ?? texts.locale}
      dir={p.dir}
    >
      {store ? (
        <SessionView key={store.id} store={store} props={p} texts={texts} empty={empty} composer={composerFor} edit={composes ? edit : undefined} inner={inner} target={target} />
      ) : (
        <div className="pl-body">
          <div className="pl-main">
            {!p.hideHeader && (p.slots?.header ?? ((p.title || id) && <header className="pl-header"><h2>{p.title}</h2></header>))}
            <div className="pl-entries">{id ? null : empty}</div>
            <div className="pl-below">{composerFor(false, false, false, p.agent ?? "", () => {})}</div>
          </div>
        </div>
      )}
    </div>
  );
});

const nothing: Part[] = [];
const defaultUploads: UploadRules = { maxFiles: 5, maxBytes: 100_000_000 };
