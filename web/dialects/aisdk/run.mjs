// Runs the tests with a Node.js that version 7 of the AI SDK supports: this one from 22 on, else the one that npm installed.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";

const here = new URL(".", import.meta.url).pathname;
const node = Number(process.versions.node.split(".")[0]) >= 22 ? process.execPath : `${here}node_modules/node/bin/node`;
const files = readdirSync(`${here}test`).filter((f) => f.endsWith(".test.mjs")).map((f) => `test/${f}`);
const run = spawnSync(node, ["--test", "--test-concurrency=1", "--test-timeout=300000", ...files], { cwd: here, stdio: "inherit" });
process.exit(run.status ?? 1);
