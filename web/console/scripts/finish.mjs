// After the build: every file that becomes smaller is kept compressed only (the server decompresses it for the rare client that accepts no encoding), the budgets, and the mark of the sources they were made from.
import { createHash } from "node:crypto";
import { copyFileSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const web = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const dist = join(web, "console", "dist");

const files = (dir) =>
  readdirSync(dir, { withFileTypes: true }).flatMap((e) => (e.isDirectory() ? files(join(dir, e.name)) : [join(dir, e.name)]));

// The page that draws diagrams contains its scripts, see src/diagram.ts, and allows no others.
{
  const page = join(dist, "diagram.html");
  const [tag, name] = /<script.*?src="\/(assets\/.+?)"><\/script>/.exec(readFileSync(page, "utf8"));
  const library = createRequire(import.meta.url).resolve("@mermaid-js/tiny/dist/mermaid.tiny.js");
  const scripts = [library, join(dist, name)].map((f) => readFileSync(f, "utf8").replace(/<(?=\/script|!--)/gi, "\\x3c"));
  const hashes = scripts.map((s) => `'sha256-${createHash("sha256").update(s).digest("base64")}'`).join(" ");
  const policy = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src ${hashes}; style-src 'unsafe-inline'" />`;
  const inner = scripts.map((s) => `<script>${s}</script>`).join("");
  writeFileSync(page, readFileSync(page, "utf8").replace(tag, () => policy).replace("</body>", () => `${inner}</body>`));
  rmSync(join(dist, name));
}

// The font is fetched together with the script, and its licence is beside it.
{
  const page = join(dist, "index.html");
  const font = readdirSync(join(dist, "assets")).find((name) => /^inter-.*\.woff2$/.test(name));
  writeFileSync(page, readFileSync(page, "utf8").replace("</title>", `</title>\n    <link rel="preload" href="/assets/${font}" as="font" type="font/woff2" crossorigin />`));
  copyFileSync(createRequire(import.meta.url).resolve("@fontsource-variable/inter/LICENSE"), join(dist, "assets", "inter-LICENSE.txt"));
}

const pages = ["index.html", "embed.html"].map((name) => ({ name, html: readFileSync(join(dist, name), "utf8"), js: 0, css: 0 }));
for (const file of files(dist)) {
  if (/\.(br|gz|sum)$/.test(file)) continue;
  const raw = readFileSync(file);
  const gz = gzipSync(raw, { level: 9 });
  if (gz.length < raw.length && !file.endsWith(".woff2")) {
    writeFileSync(`${file}.gz`, gz);
    writeFileSync(`${file}.br`, brotliCompressSync(raw, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
    if (!file.endsWith(".txt")) rmSync(file); // a licence stays readable
  }
  const name = file.slice(dist.length + 1);
  for (const p of pages) {
    if (!p.html.includes(name)) continue; // loaded later
    if (/vega|math/.test(name)) throw new Error(`${p.name} loads a large library at once`);
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
  .concat(["client/package.json", "react/package.json", "console/package.json", "console/index.html", "console/embed.html", "console/diagram.html", "console/vite.config.ts", "console/scripts/finish.mjs"].map((f) => join(web, f)))
  .map((f) => f.slice(web.length + 1).replaceAll("\\", "/"))
  .sort();
const sum = createHash("sha256");
for (const f of sources) sum.update(`${f} ${createHash("sha256").update(readFileSync(join(web, f))).digest("hex")}\n`);
writeFileSync(join(dist, "sources.sum"), `${sum.digest("hex")}\n`);
