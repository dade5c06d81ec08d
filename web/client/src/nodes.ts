/*
 * A client of several nodes of a cluster. It is an entry point of its own (@parley-hq/client/nodes), so that pages of one server do not load it.
 */
import type { ClientOptions } from "./client.js";
import type { SocketMaker } from "./socket.js";

/** What a client needs to use several nodes: `new ParleyClient({ ...nodes(["https://a", "https://b"]), token })`. */
export type NodeOptions = Required<Pick<ClientOptions, "url" | "fetch">> & Pick<ClientOptions, "WebSocket">;

/**
 * Options for a client that talks to one of several nodes, and to the next one when that is down. Requests that are safe to repeat, streams and
 * sockets continue there; a cursor is valid on every node. Uploads that report their progress in a browser use the first node.
 *
 * over has the fetch and the WebSocket constructor to use; the platform's are the default.
 */
export function nodes(urls: readonly string[], over: Pick<ClientOptions, "fetch" | "WebSocket"> = {}): NodeOptions {
  const all = urls.map((u) => u.replace(/\/+$/, ""));
  const [url] = all;
  if (url === undefined) throw new Error("nodes needs at least one address");
  const send = over.fetch ?? ((...args: Parameters<typeof fetch>) => globalThis.fetch(...args));
  const Base = over.WebSocket === undefined ? (globalThis as { WebSocket?: SocketMaker }).WebSocket : over.WebSocket;
  let current = 0;
  const next = (used: number) => {
    if (current === used) current = (used + 1) % all.length; // else another call has left the node already
  };
  /** The address on the node in use. */
  const moved = (address: string, from: string) => (address.startsWith(from) ? (all[current] ?? url).replace(/^http/, from.startsWith("ws") ? "ws" : "http") + address.slice(from.length) : address);

  const options: NodeOptions = {
    url,
    fetch: async (input, init) => {
      const used = current;
      let res: Response;
      try {
        res = await send(typeof input === "string" ? moved(input, url) : input, init);
      } catch (err) {
        if (!init?.signal?.aborted) next(used);
        throw err;
      }
      if (res.status >= 502 && res.status <= 504) next(used);
      return res.body ? watched(res, () => next(used)) : res;
    },
  };
  if (Base === undefined) return options;
  if (Base === null) return { ...options, WebSocket: null };
  return {
    ...options,
    WebSocket: function (address: string) {
      const used = current;
      const socket = new Base(moved(address, url.replace(/^http/, "ws"))) as Partial<Pick<WebSocket, "addEventListener">>;
      // 1001, 1006, 1012 and 1013: the node ends, is gone, starts again, or cannot serve at the moment.
      socket.addEventListener?.("close", (e) => {
        if ([1001, 1006, 1012, 1013].includes(e.code)) next(used);
      });
      return socket;
    } as unknown as SocketMaker,
  };
}

/** A response that calls lost when its connection breaks while the body is read. */
function watched(res: Response, lost: () => void): Response {
  const reader = (res.body as ReadableStream<Uint8Array>).getReader();
  const body = new ReadableStream<Uint8Array>({
    async pull(c) {
      try {
        const { done, value } = await reader.read();
        if (done) c.close();
        else c.enqueue(value);
      } catch (err) {
        lost();
        c.error(err);
      }
    },
    cancel: (why) => reader.cancel(why),
  });
  return new Response(body, { status: res.status, statusText: res.statusText, headers: res.headers });
}
