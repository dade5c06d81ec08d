import { useCallback } from "react";
import type { AgentCommand, ParleyClient, Session } from "@parley-hq/client";
import { ComposerSuggestions, type Mention } from "@parley-hq/react/suggestions";
import { useLanguage } from "./locale.js";
import { Voice } from "./voice.js";

const none: AgentCommand[] = [];

/** What helps to write a message: the commands of the agent, the names of people and files, and voice input. */
export function Compose({ client, id, session, me, voice = false, commands = none }: { client: ParleyClient; id: string | undefined; session?: Session | undefined; me: string | undefined; voice?: boolean; commands?: AgentCommand[] | undefined }) {
  const { words, texts } = useLanguage();
  const mentions = useCallback(async (): Promise<Mention[]> => {
    const people = session ? [session.owner, ...(session.members ?? []).map((m) => m.actor)] : [];
    const names = people.filter((a) => a.kind === "user" && a.id !== me).map((a) => ({ name: a.name || a.id, about: words.person }));
    const files = id ? await client.artifacts(id, { limit: 500 }).catch(() => ({ artifacts: [] })) : { artifacts: [] };
    return [...names, ...files.artifacts.map((f) => ({ name: f.path.split("/").pop() ?? f.path, insert: f.path, about: `${words.file} · ${texts.bytes(f.size)}` }))];
  }, [client, id, session, me, words, texts]);
  return (
    <>
      <ComposerSuggestions commands={commands} mentions={mentions} labels={words.suggestions} />
      {voice && <Voice />}
    </>
  );
}
