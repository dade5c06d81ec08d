import type { Item, ParleyClient, PromptItem, Session } from "@parley-hq/client";

/** All items of a conversation, oldest first. */
export async function itemsOf(client: ParleyClient, id: string): Promise<Item[]> {
  const snap = await client.snapshot(id, 1000);
  let items = snap.items;
  let more = snap.more;
  for (let before = items[0]?.seq; more && before; ) {
    const page = await client.items(id, { before, limit: 1000 });
    const known = new Set(items.map((it) => it.id));
    items = [...page.items.filter((it) => !known.has(it.id)), ...items];
    more = page.more;
    before = page.before;
  }
  return items;
}

const fenced = (v: unknown): string => {
  const text = typeof v === "string" ? v : JSON.stringify(v, null, 2);
  // The fence is longer than any in the text.
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((m) => m[0].length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
};

export const titleOf = (session: Session): string => session.title || session.heading || session.session_id;
export const nameOf = (it: Item): string => it.actor?.name || it.actor?.id || "";

/** The question of a prompt in one text. */
export const questionOf = (p: PromptItem): string => p.input?.text ?? p.approval?.text ?? p.approval?.calls.map((c) => c.tool).join(", ") ?? p.permission?.scopes.join(", ") ?? "";

/** The answer to a prompt in one text, or its state, with the name of the person. */
export function answerOf(p: PromptItem): string {
  const a = p.answer;
  const who = p.ended_by?.name || p.ended_by?.id;
  const what = a?.text ?? a?.values?.join(", ") ?? a?.decisions?.map((d) => `${d.call_id}: ${d.approve ? "approved" : "denied"}`).join(", ") ?? a?.granted?.join(", ") ?? p.status;
  return who ? `${who}: ${what}` : what;
}

/** One entry as Markdown; "" for those that a record does not need. */
function entry(it: Item): string {
  switch (it.kind) {
    case "message": {
      if (it.message.state === "withdrawn") return "";
      const files = it.message.content?.filter((p) => p.type !== "text").map((p) => `- ${p.name ?? p.path ?? p.type}`) ?? [];
      return [`## ${[nameOf(it), it.at].filter(Boolean).join(" · ")}`, it.message.text, files.join("\n")].filter(Boolean).join("\n\n");
    }
    case "text":
      return it.text.text;
    case "tool":
      return [`**${it.tool.tool ?? ""}** (${it.tool.status})`, it.tool.params === undefined ? "" : fenced(it.tool.params), it.tool.error ? fenced(it.tool.error) : it.tool.result === undefined ? "" : fenced(it.tool.result)].filter(Boolean).join("\n\n");
    case "prompt": {
      const p = it.prompt;
      return `> ${questionOf(p).replaceAll("\n", "\n> ")}\n\n${answerOf(p)}`;
    }
    case "plan":
      return it.plan.tasks.map((t) => `- [${t.status === "done" ? "x" : " "}] ${t.title}`).join("\n");
    case "artifact":
      return [`**${it.artifact.title || it.artifact.type}**`, it.artifact.data === undefined ? (it.artifact.path ?? "") : fenced(it.artifact.data)].filter(Boolean).join("\n\n");
    case "workstream":
      return `**${it.workstream.name || it.workstream.id}** (${it.workstream.state}): ${it.workstream.summary || it.workstream.task}`;
    case "error":
      return `**${it.error.message}**`;
    case "notice":
      return it.notice.text ? `*${it.notice.text}*` : "";
    default:
      return "";
  }
}

/** A conversation as Markdown. */
export async function markdownOf(client: ParleyClient, session: Session): Promise<string> {
  const items = await itemsOf(client, session.session_id);
  return `${[`# ${titleOf(session)}`, `${session.agent} · ${session.created_at}`, ...items.map(entry)].filter(Boolean).join("\n\n")}\n`;
}

/** Offers a text as a file. */
export function download(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A name for a file, from the title of a conversation. */
export const fileName = (session: Session, ending: string): string => `${titleOf(session).replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "conversation"}.${ending}`;
