import { execFile, spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

const root = fileURLToPath(new URL("../../..", import.meta.url));

/** Builds the server once for all tests, unless PARLEY_BINARY names one; it returns a function that removes it. */
export default async function setup({ provide }: { provide: (key: "binary", value: string) => void }): Promise<() => void> {
  const given = process.env["PARLEY_BINARY"];
  if (given) {
    provide("binary", given);
    return () => {};
  }
  const folder = mkdtempSync(join(tmpdir(), "parley-web-"));
  const binary = join(folder, "parley");
  await promisify(execFile)("go", ["build", "-o", binary, "./cmd/parley"], { cwd: root });
  provide("binary", binary);
  return () => rmSync(folder, { recursive: true, force: true });
}

declare module "vitest" {
  interface ProvidedContext {
    binary: string;
  }
}

/** The real server on a loopback port of its own. It can be killed and started again on the same data and port. */
export class Server {
  url = "";
  readonly #binary: string;
  readonly #flags: string[];
  readonly #data = mkdtempSync(join(tmpdir(), "parley-data-"));
  #process: ChildProcess | undefined;

  constructor(binary: string, ...flags: string[]) {
    this.#binary = binary;
    this.#flags = flags;
  }

  async start(): Promise<void> {
    const addr = this.url ? new URL(this.url).host : "127.0.0.1:0";
    // The tests also run on a small disk.
    const args = ["serve", "--addr", addr, "--data", this.#data, "--min-free=-1", "--min-free-percent=-1", "--rate=-1", "--nats=off", ...this.#flags];
    const p = spawn(this.#binary, args, { stdio: ["ignore", "pipe", "pipe"] });
    this.#process = p;
    let said = "";
    p.stderr?.on("data", (b: Buffer) => (said += b.toString()));
    await new Promise<void>((resolve, reject) => {
      p.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
      const lines = createInterface({ input: p.stdout as NodeJS.ReadableStream });
      lines.on("line", (line) => {
        const url = /ready at (\S+)/.exec(line)?.[1];
        if (!url) return;
        this.url = url;
        resolve();
      });
    });
  }

  /** Kills the process. */
  async kill(): Promise<void> {
    const p = this.#process;
    this.#process = undefined;
    if (!p || p.exitCode !== null) return;
    const gone = new Promise((resolve) => p.once("exit", resolve));
    p.kill("SIGKILL");
    await gone;
  }

  async remove(): Promise<void> {
    await this.kill();
    rmSync(this.#data, { recursive: true, force: true });
  }
}
