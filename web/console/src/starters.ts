import type { AgentInfo } from "@parley-hq/client";
import type { Starter } from "@parley-hq/react";
import type { Words } from "./words.js";

/** The suggested first messages of an agent. Those of the demo agent are commands, so people see what they do instead. */
export function startersOf(agent: AgentInfo | undefined, words: Words): readonly Starter[] {
  const all = agent?.starters ?? [];
  if (agent?.name !== "demo") return all;
  return all.flatMap((text) => {
    const [label, about] = words.demo[text.split(" ")[0] ?? ""] ?? [];
    return label && about ? [{ text, label, about }] : [];
  });
}
