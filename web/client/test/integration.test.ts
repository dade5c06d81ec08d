import { afterEach, describe, expect, inject, test } from "vitest";
import { openSession, ParleyClient, ParleyError, type ClientOptions, type Item, type ItemOf, type Sending, type SessionStore, type ShownItem } from "../src/index.js";
import { Server } from "./server.js";

const cleanup: (() => unknown)[] = [];
afterEach(async () => {
  for (const f of cleanup.splice(0).reverse()) await f();
});

async function start(...flags: string[]): Promise<Server> {
  const server = new Server(inject("binary"), ...flags);
  cleanup.push(() => server.remove());
  await server.start();
  return server;
}

const quick = { min: 10, max: 100 };

function connect(server: Server, o: ClientOptions = {}): ParleyClient {
  return new ParleyClient({ url: server.url, backoff: quick, ...o });
}

async function open(client: ParleyClient, id: string, items?: number): Promise<SessionStore> {
  const store = openSession(client, id, { ...(items ? { items } : {}), schedule: (flush) => setTimeout(flush, 0) });
  cleanup.push(() => store.close());
  await store.ready;
  return store;
}

/** Waits for a condition, which is checked whenever the store changes. */
function until<T>(store: SessionStore, look: () => T | undefined | false): Promise<T> {
  return new Promise((resolve) => {
    const offs: (() => void)[] = [];
    const watched = new Set<string>();
    const check = () => {
      for (const id of store.getOrder())
        if (!watched.has(id)) {
          watched.add(id);
          offs.push(store.subscribeItem(id, check));
        }
      const found = look();
      if (!found) return;
      for (const off of offs.splice(0)) off();
      resolve(found);
    };
    for (const topic of ["order", "state", "connection"] as const) offs.push(store.subscribe(topic, check));
    check();
  });
}

const shown = (store: SessionStore): ShownItem[] => store.getOrder().map((id) => store.getItem(id) as ShownItem);
const texts = (store: SessionStore): string[] => shown(store).flatMap((it) => (it.kind === "text" ? [it.text.text] : []));
const words = (n: number): string => Array.from({ length: n }, (_, i) => `tok${i + 1}`).join(" ");

/** All turns have ended: the session is idle, and the last message was answered. */
const idle = (store: SessionStore) => () => {
  const last = shown(store).findLast((it) => it.kind === "message") as ItemOf<"message"> | undefined;
  return store.getState()?.status === "idle" && last?.message.state === "taken";
};

/** Compares the items folded here, event by event, with those that the server folds. */
async function same(client: ParleyClient, store: SessionStore): Promise<void> {
  const snap = await client.snapshot(store.id, 2000);
  expect(shown(store)).toEqual([...snap.items, ...snap.open]);
  expect(store.getState()).toEqual(snap.state);
  expect(store.getSession()).toEqual(snap.session);
}

for (const transport of ["WebSocket", "streams"] as const) {
  const o: ClientOptions = transport === "streams" ? { WebSocket: null } : {};

  describe(`by ${transport}`, () => {
    test("a streamed answer ends with the same text as on the server", async () => {
      const client = connect(await start(), o);
      const { session_id } = await client.create({ title: "First contact" });
      const store = await open(client, session_id);
      // A late reader gets the text of a block in one piece. To see the block grow, the reader connects first.
      await until(store, () => store.getConnection().state === "live");
      const lengths: number[] = [];
      const watched = new Set<string>();
      store.subscribe("order", () => {
        const id = store.getOrder().find((x) => store.getItem(x)?.open);
        if (!id || watched.has(id)) return;
        watched.add(id);
        store.subscribeItem(id, () => {
          const it = store.getItem(id) as ItemOf<"text">;
          if (it.open) lengths.push(it.text.text.length);
        });
      });
      // The answer takes minutes, so the number of changes does not depend on the speed of the machine.
      await store.say("/stream 100000 400");
      await until(store, () => lengths.length > 2);
      await store.stop();
      await until(store, idle(store));
      const said = texts(store)[0] ?? "";
      expect(words(100_000).startsWith(said)).toBe(true);
      expect(said.length).toBeGreaterThanOrEqual(lengths.at(-1) ?? 0);
      expect(lengths).toEqual([...new Set(lengths)].sort((a, b) => a - b)); // each text is longer than the last
      await store.say("/stream 200 400");
      await until(store, () => idle(store)() && texts(store).length === 2);
      expect(texts(store)[1]).toBe(words(200));
      expect(store.getConnection().state).toBe("live");
      await same(client, store);
    });

    test("a kill during an answer: no text is lost or repeated", async () => {
      const server = await start();
      const client = connect(server, o);
      await client.create({ id: "k" });
      const store = await open(client, "k");
      const seen: number[] = [];
      store.onEvent((e) => seen.push(e.sequence));
      await store.say("/stream 2000 200");
      let was = "";
      for (let kills = 0; kills < 2; kills++) {
        const more = was.length + 300;
        await until(store, () => (texts(store)[0] ?? "").length > more);
        await server.kill();
        await until(store, () => store.getConnection().state === "offline");
        const now = texts(store)[0] ?? "";
        expect(now.startsWith(was)).toBe(true);
        was = now;
        await server.start();
        await until(store, () => store.getConnection().state === "live");
      }
      await until(store, idle(store));
      expect(texts(store)).toEqual([words(2000)]);
      expect(texts(store)[0]?.startsWith(was)).toBe(true);
      expect(seen).toEqual(seen.map((_, i) => (seen[0] as number) + i));
      expect(shown(store).filter((it) => it.kind === "notice").length).toBe(2); // resumed twice
      await same(client, store);
    });
  });
}

test("the platform has a WebSocket", () => expect(globalThis.WebSocket).toBeTypeOf("function"));

test("a tour with all prompts answered gives the same items as on the server", async () => {
  const client = connect(await start());
  await client.create({ id: "tour" });
  const store = await open(client, "tour");
  const answered = new Set<string>();
  store.subscribe("state", () => {
    for (const p of store.getState()?.prompts ?? []) {
      if (answered.has(p.request_id)) continue;
      answered.add(p.request_id);
      const o = p.input?.options?.[0];
      void store.answer(
        p.request_id,
        p.approval
          ? { decisions: p.approval.calls.map((c) => ({ call_id: c.call_id, approve: true })) }
          : p.permission
            ? { granted: p.permission.scopes }
            : o
              ? { values: [o.value ?? o.id] }
              : { text: "fine" },
      );
    }
  });
  await store.say("/tour");
  await until(store, idle(store));
  expect(answered.size).toBeGreaterThan(0);
  expect(new Set(shown(store).map((it) => it.kind)).size).toBeGreaterThan(6);
  await same(client, store);
});

test("the first answer to a prompt wins; the second gets a conflict that names the first answerer", async () => {
  const client = connect(await start());
  await client.create({ id: "p" });
  const store = await open(client, "p");
  await store.say("/ask radio timeout=60");
  const prompt = await until(store, () => store.getState()?.prompts[0]);
  expect(Date.parse(prompt.deadline ?? "") - client.serverNow()).toBeGreaterThan(50_000);
  const value = prompt.input?.options?.[0]?.id ?? "";
  const other = connect({ url: client.url } as Server);
  await other.answer("p", prompt.request_id, { values: [value] });
  const late = await store.answer(prompt.request_id, { values: [value] }).catch((err: unknown) => err);
  expect(late).toBeInstanceOf(ParleyError);
  expect(late).toMatchObject({ code: "conflict", retryable: false, details: { request_id: prompt.request_id } });
  const item = await until(store, () => {
    const it = store.getItem(`p-${prompt.request_id}`);
    return it?.kind === "prompt" && it.prompt.status === "answered" && it;
  });
  expect(item.prompt.answer?.values).toEqual([prompt.input?.options?.[0]?.value ?? value]);
  await until(store, idle(store));
  await same(client, store);
});

test("stop ends the turn and keeps the text", async () => {
  const client = connect(await start());
  await client.create({ id: "x" });
  const store = await open(client, "x");
  await store.say("/stream 5000 200");
  await until(store, () => (texts(store)[0] ?? "").length > 20);
  expect((await store.stop({ reason: "enough" })).stopped).toBe(true);
  await until(store, () => store.getState()?.status === "idle");
  const it = shown(store).find((x) => x.kind === "text") as ItemOf<"text">;
  expect(it.text.partial).toBe(true);
  expect(shown(store).some((x) => x.kind === "notice" && x.notice.code === "stopped")).toBe(true);
  expect((await store.stop()).stopped).toBe(false);
  await same(client, store);
});

test("a queued message can be withdrawn", async () => {
  const client = connect(await start());
  await client.create({ id: "w" });
  const store = await open(client, "w");
  await store.say("/sleep 60");
  const waiting = await store.say("later");
  await until(store, () => store.getState()?.queued.length === 1);
  await store.withdraw(waiting.sequence);
  await until(store, () => store.getState()?.queued.length === 0);
  expect((store.getItem(`i${waiting.sequence}`) as ItemOf<"message">).message.state).toBe("withdrawn");
  await store.stop();
  await until(store, () => store.getState()?.status === "idle");
  await same(client, store);
});

test("files are uploaded with progress and downloaded", async () => {
  const client = connect(await start());
  await client.create({ id: "f" });
  const store = await open(client, "f");
  const bytes = new Uint8Array(300_000).map((_, i) => i % 251);
  const reported: number[] = [];
  const info = await store.upload("data/ü 1.bin", bytes, { mediaType: "application/x-test", onProgress: (done) => reported.push(done) });
  expect(info).toMatchObject({ path: "data/ü 1.bin", size: 300_000, media_type: "application/x-test" });
  expect(reported.at(-1)).toBe(300_000);
  expect(reported.length).toBeGreaterThan(3);
  expect((await client.artifacts("f")).artifacts.map((a) => a.path)).toEqual(["data/ü 1.bin"]);
  expect(new Uint8Array(await (await client.download("f", "data/ü 1.bin")).arrayBuffer())).toEqual(bytes);
  await until(store, () => shown(store).find((it) => it.kind === "file"));
  await client.removeArtifact("f", "data/ü 1.bin");
  await until(store, () => shown(store).filter((it) => it.kind === "file").length === 2);
  await same(client, store);
});

test("a message during an outage is shown, sent once, and survives a reload", async () => {
  const server = await start();
  let stored: Sending[] = [];
  const storage = { load: () => structuredClone(stored), save: (all: Sending[]) => void (stored = structuredClone(all)) };
  const client = connect(server, { storage });
  await client.create({ id: "q", agent: "none" });
  const store = await open(client, "q");
  await server.kill();
  await until(store, () => store.getConnection().state === "offline");
  void store.say("one");
  void store.say("two");
  const pending = await until(store, () => {
    const list = shown(store).filter((it) => "pending" in it);
    return list.length === 2 && list;
  });
  expect(pending.map((it) => (it as ItemOf<"message">).message.text)).toEqual(["one", "two"]);
  await until(store, () => stored.length === 2 && stored[0]?.error?.code === "unavailable");
  const kept = structuredClone(stored);
  await server.start();
  await until(store, () => store.getOrder().join() === "i2,i3");
  expect(stored).toEqual([]);

  // The page was closed before the reply arrived: the same entries are sent again.
  stored = kept;
  const again = connect(server, { storage });
  const second = await open(again, "q");
  await until(second, () => stored.length === 0);
  await again.say("q", "three");
  await until(second, () => second.getOrder().join() === "i2,i3,i4");
  expect(shown(second).map((it) => (it as ItemOf<"message">).message.text)).toEqual(["one", "two", "three"]);
  await same(again, second);
});

test("a refused message stays visible and can be discarded", async () => {
  const client = connect(await start());
  await client.create({ id: "r" });
  const store = await open(client, "r");
  await expect(store.say("x".repeat(900_000), { client_id: "big" })).rejects.toMatchObject({ code: "too_large" });
  await until(store, () => {
    const it = store.getItem("pending-big");
    return it && "pending" in it && it.pending.status === "failed" && it.pending.error?.code === "too_large";
  });
  store.discard("big");
  await until(store, () => store.getOrder().length === 0);
});

test("older items are loaded page by page, without gaps or repeats", async () => {
  const client = connect(await start());
  await client.create({ id: "o" });
  const writer = await open(client, "o");
  for (let i = 0; i < 12; i++) await writer.say(`/tool t${i} {"n":${i}}`);
  await until(writer, idle(writer));
  const reader = await open(connect({ url: client.url } as Server), "o", 5);
  expect(reader.getOrder().length).toBe(5);
  let pages = 0;
  while (await reader.loadOlder(7)) pages++;
  expect(pages).toBeGreaterThan(2);
  await same(client, reader);
  expect(reader.getOlder()).toEqual({ more: false, loading: false });
});

test("a store that is opened late shows the open block", async () => {
  const client = connect(await start());
  await client.create({ id: "l" });
  const first = await open(client, "l");
  await first.say("/stream 3000 300");
  await until(first, () => (texts(first)[0] ?? "").length > 200);
  const late = await open(connect({ url: client.url } as Server), "l");
  expect(texts(late)[0]?.length).toBeGreaterThan(100);
  expect(shown(late).at(-1)?.open).toBe(true);
  await until(late, idle(late));
  expect(texts(late)).toEqual([words(3000)]);
});

test("a token works in the header and for the socket; without it the server refuses", async () => {
  const server = await start("--token", "a-token-of-some-length");
  const client = connect(server, { token: () => Promise.resolve("a-token-of-some-length") });
  await client.create({ id: "t" });
  const store = await open(client, "t");
  await store.say("/echo hello");
  await until(store, idle(store));
  expect(texts(store)).toEqual(["hello"]);
  const stranger = openSession(connect(server), "t");
  cleanup.push(() => stranger.close());
  await expect(stranger.ready).rejects.toMatchObject({ code: "unauthenticated" });
});

test("the rest of the API", async () => {
  const client = connect(await start());
  const s = await client.create({ id: "a", agent: "none", title: "One" });
  expect((await client.update("a", { title: "Two", metadata: { k: 1 } })).title).toBe("Two");
  expect((await client.list({ q: "two" })).sessions.map((x) => x.session_id)).toEqual([s.session_id]);
  const [e] = await client.append("a", { type: "user.message", payload: { text: "a needle here" } });
  expect((await client.search("a", "needle")).hits.map((h) => h.sequence)).toEqual([e?.sequence]);
  const page = await client.events("a", { types: ["user.message"], order: "desc", limit: 5 });
  expect(page).toEqual({ events: [e], more: false });
  expect(await client.event("a", e?.sequence ?? 0)).toEqual(e);
  expect((await client.agents()).map((x) => x.name)).toContain("demo");
  const items: Item[] = (await client.items("a")).items;
  expect(items.length).toBe(1);
  const fork = await client.fork("a", { after: 1, agent: "none", settings: { effort: "high" }, message: { text: "another needle" } });
  expect([fork.forked_of, fork.settings?.effort]).toEqual(["a", "high"]);
  expect((await client.items(fork.session_id)).items.map((it) => it.kind === "message" && it.message.text)).toEqual(["another needle"]);
  const receipt = await client.erase("a");
  expect(receipt.session_id).toBe("a");
  await expect(client.get("a")).rejects.toMatchObject({ code: "gone" });
});
