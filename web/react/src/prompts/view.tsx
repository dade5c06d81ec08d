import { useEffect, useMemo, useState } from "react";
import { openSession, type Answer, type Event, type ItemOf, type ParleyClient, type Prompt, type SessionStore } from "@parley-hq/client";
import { english, type Texts } from "../i18n/texts.js";
import { InView, SharedProvider, type Shared } from "../shared/context.js";
import { useItem, useView } from "../shared/hooks.js";
import { memoryOf } from "../shared/memory.js";
import { PromptCard } from "./prompt.js";

export interface PromptViewProps {
  client: ParleyClient;
  session: string;
  prompt: Prompt;
  messages?: Partial<Texts>;
  /** The actor id of the person. */
  me?: string | undefined;
  /** Called when the server has stored an answer that was given here. */
  onAnswered?: (e: Event) => void;
}

/** One prompt outside of its conversation, with the forms and the drafts that it has there. */
export function PromptView(p: PromptViewProps) {
  const [store, setStore] = useState<SessionStore>();
  useEffect(() => {
    const s = openSession(p.client, p.session, { items: 1 });
    setStore(s);
    return () => s.close();
  }, [p.client, p.session]);
  return store?.id === p.session ? <Opened {...p} store={store} /> : null;
}

function Opened({ client, store, prompt: p, messages, me, onAnswered }: PromptViewProps & { store: SessionStore }) {
  const shared = useMemo<Shared>(() => {
    const { answeredHere, memory, threads } = memoryOf(client, store.id);
    const answer = async (request: string, a: Answer) => {
      const e = await store.answer(request, a);
      answeredHere.add(request);
      onAnswered?.(e);
      return e;
    };
    return {
      client, store, texts: { ...english, ...messages }, mode: "interactive", renderers: {}, answer, answeredHere, me, memory, inView: new InView(), threads, edit: undefined, branch: undefined,
      inspect: undefined, scrollTo: () => {}, onLinkClick: undefined, loadImage: undefined, pageURL: undefined,
    };
  }, [client, store, messages, me, onAnswered]);
  useView(store); // names of workstreams
  const found = useItem(store, `p-${p.request_id}`);
  const known = found?.kind === "prompt" ? found : undefined;
  const { request_id, deadline, input, approval, permission } = p;
  // The store has only the last item: the question itself is in the list of open prompts.
  const item = {
    id: `p-${request_id}`, kind: "prompt", seq: p.sequence, last: p.sequence, at: p.asked_at, workstream_id: p.workstream_id, actor: { kind: "agent", id: p.agent ?? "" },
    ...known, prompt: { request_id, status: "open", deadline, input, approval, permission, ...known?.prompt },
  } as ItemOf<"prompt">;
  return (
    <SharedProvider value={shared}>
      <PromptCard item={item} />
    </SharedProvider>
  );
}
