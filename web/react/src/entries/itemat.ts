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
