import { createServer, connect, type Server as Listener, type Socket } from "node:net";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { ParleyClient } from "../src/index.js";
import { nodes } from "../src/nodes.js";
import { Server } from "./server.js";

/*
 * A client of several nodes. The nodes are two ports of one server, so each can be closed; that a cluster behaves like this is tested with
 * three servers in Go.
 */

class Port {
  url = "";
  readonly #sockets = new Set<Socket>();
  #listener: Listener | undefined;

  async open(to: URL): Promise<void> {
    const listener = createServer((a) => {
      const b = connect(Number(to.port), to.hostname);
      for (const [s, other] of [[a, b], [b, a]] as const) {
        this.#sockets.add(s);
        s.on("error", () => {});
        s.on("close", () => {
          this.#sockets.delete(s);
          other.destroy();
        });
        s.pipe(other);
      }
    });
    this.#listener = listener;
    await new Promise<void>((done) => listener.listen(0, "127.0.0.1", done));
    this.url = `http://127.0.0.1:${(listener.address() as { port: number }).port}`;
  }

  /** Refuses connections, and breaks those that are open. */
  close(): void {
    this.#listener?.close();
    for (const s of this.#sockets) s.destroy();
  }
}

let server: Server;
const ports: Port[] = [];
beforeAll(async () => {
  server = new Server(inject("binary"));
  await server.start();
});
afterAll(async () => {
  for (const p of ports) p.close();
  await server.remove();
});

async function twoPorts(): Promise<[Port, Port]> {
  const pair: [Port, Port] = [new Port(), new Port()];
  for (const p of pair) {
    await p.open(new URL(server.url));
    ports.push(p);
  }
  return pair;
}

for (const how of ["sockets", "event streams"]) {
  test(`a client goes on with the next node: ${how}`, async () => {
    const [first, second] = await twoPorts();
    const client = new ParleyClient({ backoff: { min: 5, max: 20 }, retries: 50, ...nodes([`${first.url}/`, second.url], how === "sockets" ? {} : { WebSocket: null }) });
    const { session_id: id } = await client.create({ id: `nodes-${how.slice(0, 5).trim()}`, agent: "none" });
    const stop = new AbortController();
    const sent = (async () => {
      for (let n = 0; n < 20; n++) {
        if (n === 10) first.close();
        await client.say(id, `m${n}`, { client_id: `c${n}` });
      }
    })();
    const seen: number[] = [];
    const texts: string[] = [];
    for await (const f of client.watch(id, { after: "0", signal: stop.signal })) {
      if (!("event" in f) || !f.event) continue;
      seen.push(f.event.sequence);
      if (f.event.type === "user.message") texts.push((f.event.payload as { text: string }).text);
      if (texts.length === 20) break;
    }
    await sent;
    stop.abort();
    expect(seen).toEqual(seen.map((_, i) => i + 1));
    expect(texts).toEqual(Array.from({ length: 20 }, (_, n) => `m${n}`));
  });
}

test("a list without an address is refused", () => {
  expect(() => nodes([])).toThrow("at least one address");
});
