import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "vite";
import { expect, inject, test } from "vitest";
import { Server } from "./server.js";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

test("the program in the README prints the answer and ends", async () => {
  const folder = mkdtempSync(join(tmpdir(), "parley-example-"));
  const server = new Server(inject("binary"));
  try {
    await build({
      configFile: false,
      logLevel: "error",
      root: here("../../../examples/follow-typescript"),
      resolve: { alias: { "@parley-hq/client": here("../src/index.ts") } },
      build: { ssr: "follow.ts", outDir: folder, emptyOutDir: false, rolldownOptions: { output: { entryFileNames: "follow.mjs" } } },
    });
    await server.start();
    const { stdout } = await promisify(execFile)(process.execPath, [...process.execArgv, join(folder, "follow.mjs")], {
      env: { ...process.env, PARLEY_URL: server.url },
      timeout: 60_000,
    });
    expect(stdout).toBe("Hello there\n");
  } finally {
    await server.remove();
    rmSync(folder, { recursive: true, force: true });
  }
});
