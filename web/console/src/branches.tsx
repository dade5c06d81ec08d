import type { Item, ParleyClient, Part, Session } from "@parley-hq/client";
import { Icon } from "@parley-hq/react";
import { follow } from "./list.js";
import { useWords } from "./locale.js";
import { pathOf } from "./route.js";

/**
 * Copies a conversation up to a message and sends another one there. It returns the id of the copy. A message that waited for an
 * answer stands in the log before the end of that answer: the copy has the whole answer, and what waited for it is withdrawn. The copy is
 * made from the conversation in which the message was first written or replaced, so that all its versions are branches of one. A title
 * that no person gave stays with the original.
 */
export async function branchOf(client: ParleyClient, session: Session, seq: number, text: string, files: Part[], titled: boolean): Promise<string> {
  const { items } = await client.items(session.session_id, { before: seq + 1, limit: 1 });
  const it = items.at(-1);
  const before = it?.kind === "message" && it.seq === seq && it.message.state === "taken" && !it.message.steered ? (it.last ?? 0) - 1 : 0;
  let from = session;
  let after = before > seq ? before : seq - 1;
  let began = session.forked_of !== undefined && (await client.events(session.session_id, { types: ["user.message"], after: session.forked_at ?? 0, limit: 1 })).events[0]?.sequence === seq;
  for (; from.forked_of && (began || after < (from.forked_at ?? 0)); began = false) {
    const origin = await client.get(from.forked_of).catch(() => undefined); // it may be erased
    if (!origin) break;
    if (began) after = from.forked_at ?? 0;
    from = origin;
  }
  const { approvals: _, ...settings } = session.settings ?? {}; // who approves was decided for the other conversation
  const message = { text, ...(files.length > 0 ? { content: [{ type: "text", text }, ...files] } : {}) };
  const fork = await client.fork(from.session_id, { after, agent: session.agent, settings, message, ...(titled && session.title ? { title: session.title } : {}) });
  return fork.session_id;
}

/** Reports whether a branch shows an item: not the messages that it withdrew because it replaces them. */
export const isShown = (it: Item, forkedAt = 0): boolean =>
  it.kind !== "message" || it.message.state !== "withdrawn" || (it.seq ?? 0) > forkedAt || (it.last ?? 0) <= forkedAt;

/** A place where branches of a conversation begin. */
export interface Point {
  after: number;
  /** The ids of the branches, and before them that of the conversation that they were made from. */
  list: string[];
  /** The one that the shown conversation belongs to. */
  at: number;
}

/** The places in a conversation where branches begin. */
export function pointsOf(all: readonly Session[], current: Session): Point[] {
  const by = new Map(all.map((s) => [s.session_id, s]));
  by.set(current.session_id, current);
  // The conversation, the one that it was made from, and so on, each with its last event that the shown one has.
  const line = new Map<string, number>();
  for (let s: Session | undefined = current, end = Infinity; s && !line.has(s.session_id); s = by.get(s.forked_of ?? "")) {
    line.set(s.session_id, end);
    end = Math.min(end, s.forked_at ?? 0);
  }
  const points = new Map<string, { of: string; after: number; branches: string[] }>();
  for (const { session_id, forked_of: of, forked_at: after = 0 } of by.values()) {
    if (!of) continue;
    const key = `${of} ${after}`;
    const p = points.get(key) ?? { of, after, branches: [] };
    points.set(key, p);
    p.branches.push(session_id);
  }
  return [...points.values()].flatMap(({ of, after, branches }) => {
    branches.sort(); // ids are in the order of time; a copy has the times of the original
    const list = by.has(of) ? [of, ...branches] : branches;
    const at = list.indexOf(branches.find((id) => line.has(id)) ?? (after < (line.get(of) ?? 0) ? of : ""));
    return at >= 0 && list.length > 1 ? [{ after, list, at }] : [];
  });
}

/** Which of the branches is shown, with links to the previous and the next one. */
export function Branches({ list, at, go }: Point & { go: (path: string) => void }) {
  const words = useWords();
  const step = (by: number, label: string) => {
    const to = list[at + by];
    const props = { className: by < 0 ? "pl-mini co-back" : "pl-mini", "aria-label": label, title: label, children: <Icon name="chevron" size={14} /> };
    return to ? <a {...props} href={pathOf(to)} onClick={(e) => follow(e, go)} /> : <button type="button" {...props} disabled />;
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
