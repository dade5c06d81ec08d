// Runs the tests with a Node.js that version 7 of the AI SDK supports: this one from 22 on, else the one that npm installed.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";

const here = new URL(".", import.meta.url).pathname;
// The packages of the example pages are installed here: how long that takes depends on the network, and a test has a time limit.
for (const page of ["aisdk-page", "assistant-ui-page"]) {
  const cwd = `${here}../../../examples/${page}`;
  if (existsSync(`${cwd}/node_modules/.package-lock.json`)) continue;
  const installed = spawnSync("npm", ["ci", "--include=dev", "--no-audit", "--no-fund"], { cwd, stdio: "inherit" });
  if (installed.status !== 0) process.exit(installed.status ?? 1);
}
const node = Number(process.versions.node.split(".")[0]) >= 22 ? process.execPath : `${here}node_modules/node/bin/node`;
const files = readdirSync(`${here}test`).filter((f) => f.endsWith(".test.mjs")).map((f) => `test/${f}`);
const run = spawnSync(node, ["--test", "--test-concurrency=1", "--test-timeout=600000", ...files], { cwd: here, stdio: "inherit" });
process.exit(run.status ?? 1);
