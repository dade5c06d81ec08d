// Starts the built program on a free port; it ends with the tests. PARLEY_BIN names a program that is built already.
import { spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, connect } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));
export const uuid = () => randomUUID();

let built;
/** The program under test. */
export function binary() {
  if (process.env.PARLEY_BIN) return process.env.PARLEY_BIN;
  if (!built) {
    const dir = mkdtempSync(join(tmpdir(), "parley-agui-bin-"));
    built = join(dir, "parley");
    const out = spawnSync("go", ["build", "-o", built, "./cmd/parley"], { cwd: root, stdio: "inherit" });
    if (out.status !== 0) throw new Error("the server does not build");
    process.on("exit", () => rmSync(dir, { recursive: true, force: true }));
  }
  return built;
}

/** A server with its own data folder. */
export async function startServer({ config, flags = [] } = {}) {
  const dir = mkdtempSync(join(tmpdir(), "parley-agui-"));
  const args = ["serve", "--data", join(dir, "data"), "--nats=off", "--min-free=-1", "--min-free-percent=-1", ...flags];
  if (config) {
    const file = join(dir, "parley.yaml");
    writeFileSync(file, config);
    args.push("--config", file);
  }
  const run = (addr) =>
    new Promise((resolve, reject) => {
      const p = spawn(binary(), [...args, "--addr", addr], { stdio: ["ignore", "pipe", "pipe"] });
      let out = "";
      const look = (b) => {
        out += b;
        const m = /ready at (http:\/\/[\d.:]+)/.exec(out);
        if (m) resolve({ process: p, url: m[1] });
      };
      p.stdout.on("data", look);
      p.stderr.on("data", look);
      p.on("exit", () => reject(new Error(`the server ended: ${out}`)));
    });
  let now = await run("127.0.0.1:0");
  const end = (signal) =>
    new Promise((resolve) => {
      now.process.removeAllListeners("exit");
      now.process.on("exit", resolve);
      now.process.kill(signal);
    });
  return {
    url: now.url,
    kill: () => end("SIGKILL"),
    again: async () => {
      now = await run(new URL(now.url).host);
    },
    /** Removes the data of a killed server. */
    remove: () => rmSync(dir, { recursive: true, force: true }),
    stop: async () => {
      await end("SIGTERM");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** A request of the native API. */
export async function api(server, path, body, method = body === undefined ? "GET" : "POST") {
  const res = await fetch(`${server.url}/parley/v1${path}`, {
    method,
    ...(body === undefined ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }),
  });
  const text = await res.text();
  if (!res.ok) throw new Error(`${method} ${path}: ${res.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

/** Waits until look returns something. The server's own waits are events; this one bridges two processes. */
export async function until(look, what = "a condition") {
  const end = Date.now() + 60_000;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`${typeof what === "function" ? what() : what} did not happen in a minute`);
    await new Promise((r) => setTimeout(r, 20));
  }
}

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
