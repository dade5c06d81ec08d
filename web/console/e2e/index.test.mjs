// Each point of the acceptance list has a test with its number, and docs/web-acceptance.md lists them.
import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const page = join(here, "..", "..", "..", "docs", "web-acceptance.md");

/** Tests by the number that their names begin with. */
function byPoint() {
  const out = new Map();
  for (const file of readdirSync(here).filter((f) => f.endsWith(".test.mjs") && f !== "index.test.mjs").sort())
    for (const [, name] of readFileSync(join(here, file), "utf8").matchAll(/\btest\(\s*["`](\[\d+\].*?)["`],/g))
      for (const [, n] of name.matchAll(/\[(\d+)\]/g)) out.set(Number(n), [...(out.get(Number(n)) ?? []), `\`${file}\`: ${name.replace(/^(\[\d+\] ?)+/, "").replaceAll("|", "\\|")}`]);
  return out;
}

test("every point of the list has a test with its number", () => {
  const found = byPoint();
  assert.deepEqual(Array.from({ length: 40 }, (_, i) => i + 1).filter((n) => !found.has(n)), []);
  const text = readFileSync(page, "utf8");
  const made = text.replace(/^\| (\d+) \| ([^|]+) \|.*$/gm, (_, n, what) => `| ${n} | ${what.trim()} | ${(found.get(Number(n)) ?? []).join("<br>")} |`);
  if (process.env.UPDATE) writeFileSync(page, made);
  else assert.equal(text, made, "the table in docs/web-acceptance.md is outdated: UPDATE=1 node --test e2e/index.test.mjs");
});

test("every test that the list names exists", () => {
  const missing = [...readFileSync(page, "utf8").matchAll(/`(\w+\.test\.mjs)`: (.+?)(?=<br>| \|$)/gm)]
    .filter(([, file, name]) => !readFileSync(join(here, file), "utf8").includes(name.replaceAll("\\|", "|")));
  assert.deepEqual(missing.map(([, file, name]) => `${file}: ${name}`), []);
});
