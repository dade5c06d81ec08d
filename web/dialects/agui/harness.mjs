// What the tests of AG-UI share beside web/testing.
import { randomUUID } from "node:crypto";
import { connect, createServer } from "node:net";

export { api, root, startServer, until } from "../../testing/server.mjs";

export const uuid = () => randomUUID();

/** A proxy that breaks each connection after so many bytes from the server: cuts() gives the number for the next one, or undefined. */
export async function startProxy(target, cuts) {
  const { hostname, port } = new URL(target);
  const sockets = new Set();
  let broken = 0;
  const server = createServer((client) => {
    let left = cuts();
    const up = connect(Number(port), hostname);
    sockets.add(client).add(up);
    const end = () => {
      client.destroy();
      up.destroy();
      sockets.delete(client);
      sockets.delete(up);
    };
    client.on("error", end).on("close", end);
    up.on("error", end).on("close", end);
    client.pipe(up);
    up.on("data", (b) => {
      if (left === undefined || b.length < left) {
        if (left !== undefined) left -= b.length;
        client.write(b);
        return;
      }
      broken++;
      up.removeAllListeners("data");
      client.write(b.subarray(0, left), () => {
        client.resetAndDestroy();
        end();
      });
    });
  });
  await new Promise((r) => server.listen(0, "127.0.0.1", r));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    broken: () => broken,
    stop: () => {
      for (const s of sockets) s.destroy();
      return new Promise((r) => server.close(r));
    },
  };
}

/** The text of the assistant's messages. */
export const answers = (messages) => messages.filter((m) => m.role === "assistant" && typeof m.content === "string" && m.content).map((m) => m.content);
