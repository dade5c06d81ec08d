// Starts the built program on a free port; it ends with the tests. PARLEY_BIN names the program.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));

export async function startServer(...flags) {
  const dir = mkdtempSync(join(tmpdir(), "parley-aisdk-"));
  let bin = process.env.PARLEY_BIN;
  if (!bin) {
    bin = join(dir, "parley");
    const built = spawnSync("go", ["build", "-o", bin, "./cmd/parley"], { cwd: root, stdio: "inherit" });
    if (built.status !== 0) throw new Error("the server does not build");
  }
  const run = (addr) =>
    new Promise((resolve, reject) => {
      const args = ["serve", "--addr", addr, "--data", join(dir, "data"), "--nats=off", "--min-free=-1", "--min-free-percent=-1", ...flags];
      const p = spawn(bin, args, { stdio: ["ignore", "pipe", "pipe"] });
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
  const url = now.url;
  const end = (signal) =>
    new Promise((resolve) => {
      now.process.removeAllListeners("exit");
      now.process.on("exit", resolve);
      now.process.kill(signal);
    });
  return {
    url,
    api: `${url}/api/chat`,
    kill: () => end("SIGKILL"),
    shutdown: () => end("SIGTERM"),
    again: async () => {
      now = await run(new URL(url).host);
    },
    stop: async () => {
      await end("SIGTERM");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** A request of the native API, as another client of the same session would send it. */
export async function native(server, path, body) {
  const res = await fetch(`${server.url}/parley/v1${path}`, {
    method: body === undefined ? "GET" : "POST",
    ...(body === undefined ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }),
  });
  if (!res.ok) throw new Error(`${path}: ${res.status} ${await res.text()}`);
  return res.json();
}

/** The open prompts of a session. */
export async function prompts(server, session) {
  const state = await native(server, `/sessions/${session}/snapshot`);
  return state.state.prompts ?? [];
}
