// After the build: compressed copies of every file, the budgets, and the mark of the sources they were made from.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const web = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const dist = join(web, "console", "dist");

const files = (dir) =>
  readdirSync(dir, { withFileTypes: true }).flatMap((e) => (e.isDirectory() ? files(join(dir, e.name)) : [join(dir, e.name)]));

const pages = ["index.html", "embed.html"].map((name) => ({ name, html: readFileSync(join(dist, name), "utf8"), js: 0, css: 0 }));
for (const file of files(dist)) {
  if (/\.(br|gz|sum)$/.test(file)) continue;
  const raw = readFileSync(file);
  const gz = gzipSync(raw, { level: 9 });
  if (gz.length < raw.length) {
    writeFileSync(`${file}.gz`, gz);
    writeFileSync(`${file}.br`, brotliCompressSync(raw, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
  }
  const name = file.slice(dist.length + 1);
  for (const p of pages) {
    if (!p.html.includes(name)) continue; // loaded later
    if (/vega/.test(name)) throw new Error(`${p.name} loads the chart library at once`);
    if (name.endsWith(".js")) p.js += gz.length;
    if (name.endsWith(".css")) p.css += gz.length;
  }
}
for (const p of pages) {
  console.log(`${p.name}, first load: ${(p.js / 1000).toFixed(1)} kB of script, ${(p.css / 1000).toFixed(1)} kB of style (gzip)`);
  if (p.js > 160_000 || p.css > 20_000) throw new Error("the first load is over its budget: 160 kB of script, 20 kB of style");
}

// The same sum as in web/web_test.go: the test there fails when the sources have changed since.
const sources = ["client/src", "react/src", "console/src", "console/public"]
  .flatMap((d) => files(join(web, d)))
  .concat(["client/package.json", "react/package.json", "console/package.json", "console/index.html", "console/embed.html", "console/vite.config.ts", "console/scripts/finish.mjs"].map((f) => join(web, f)))
  .map((f) => f.slice(web.length + 1).replaceAll("\\", "/"))
  .sort();
const sum = createHash("sha256");
for (const f of sources) sum.update(`${f} ${createHash("sha256").update(readFileSync(join(web, f))).digest("hex")}\n`);
writeFileSync(join(dist, "sources.sum"), `${sum.digest("hex")}\n`);
