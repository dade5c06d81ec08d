import type { SessionStore } from "@parley-hq/client";

/** Loads older items until the item of an event is loaded, and returns its id. */
export async function itemAt(store: SessionStore, seq: number): Promise<string | undefined> {
  await store.ready;
  for (;;) {
    let best: string | undefined;
    let first = Number.POSITIVE_INFINITY;
    for (const id of store.getOrder()) {
      const item = store.getItem(id);
      if (item?.seq === undefined) continue;
      first = Math.min(first, item.seq);
      if (item.seq <= seq) best = id;
    }
    if (first <= seq || !store.getOlder().more) return best;
    await store.loadOlder(1000);
  }
}

/** The first message that was taken after a sequence; undefined while the items before it are not loaded. */
export function firstAfter(store: Pick<SessionStore, "getOrder" | "getItem" | "getOlder">, seq: number): string | undefined {
  const order = store.getOrder();
  if (store.getOlder().more && (store.getItem(order[0] ?? "")?.seq ?? 0) > seq) return undefined;
  return order.find((id) => {
    const it = store.getItem(id);
    return it?.kind === "message" && !it.workstream_id && it.message.state !== "withdrawn" && (it.last ?? it.seq ?? 0) > seq;
  });
}
