import type { ParleyClient } from "@parley-hq/client";
import { InView } from "./context.js";

interface Memory {
  answeredHere: Set<string>;
  memory: Map<string, unknown>;
  threads: InView;
}
const memories = new WeakMap<ParleyClient, Map<string, Memory>>();

/** Drafts and expanded rows of a session, kept while the page is open. */
export function memoryOf(client: ParleyClient, session: string): Memory {
  const all = memories.get(client) ?? new Map<string, Memory>();
  memories.set(client, all);
  let m = all.get(session);
  if (!m) all.set(session, (m = { answeredHere: new Set(), memory: new Map(), threads: new InView() }));
  return m;
}
