import type { ParleyClient, Part, Session } from "@parley-hq/client";
import { Icon } from "@parley-hq/react";
import { follow } from "./list.js";
import { useWords } from "./locale.js";
import { pathOf } from "./route.js";

/** Copies a conversation up to an event and sends another message there. It returns the id of the copy. */
export async function branchOf(client: ParleyClient, session: Session, seq: number, text: string, files: Part[]): Promise<string> {
  const title = session.title || session.heading;
  const fork = await client.request<Session>(`/sessions/${encodeURIComponent(session.session_id)}/fork`, { method: "POST", json: { after: seq - 1, ...(title ? { title } : {}) } });
  await client.say(fork.session_id, { text, ...(files.length > 0 ? { content: [{ type: "text", text }, ...files] } : {}) });
  return fork.session_id;
}

/** The conversations that differ from one message on: the original and its copies, oldest first. */
export function branchesAt(all: readonly Session[], current: Session): Session[] {
  const of = current.forked_of ?? current.session_id;
  const forks = all.filter((s) => s.forked_of === of).sort((a, b) => a.created_at.localeCompare(b.created_at));
  const at = current.forked_of ? current.forked_at : forks.at(-1)?.forked_at;
  const original = all.filter((s) => s.session_id === of);
  return [...original, ...forks.filter((s) => s.forked_at === at)];
}

/** Which of the branches is shown, with links to the previous and the next one. */
export function Branches({ all, current, go }: { all: readonly Session[]; current: Session; go: (path: string) => void }) {
  const words = useWords();
  const list = branchesAt(all, current);
  const at = list.findIndex((s) => s.session_id === current.session_id);
  if (list.length < 2 || at < 0) return null;
  const step = (by: number, label: string) => {
    const to = list[at + by];
    return (
      <a className={by < 0 ? "pl-mini co-back" : "pl-mini"} aria-label={label} title={label} aria-disabled={!to} href={to && pathOf(to.session_id)} onClick={(e) => follow(e, go)}>
        <Icon name="chevron" size={14} />
      </a>
    );
  };
  return (
    <span className="co-branches" role="group" aria-label={words.branches}>
      {step(-1, words.previousBranch)}
      <span>
        {at + 1}/{list.length}
      </span>
      {step(1, words.nextBranch)}
    </span>
  );
}
