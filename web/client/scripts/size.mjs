// Fails when the client, minified and compressed as a page would load it, is over its budget.
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "vite";

const index = fileURLToPath(new URL("../src/index.ts", import.meta.url));

/** The size of a page that imports these names. */
async function size(names) {
  const page = "\0page";
  const result = await build({
    configFile: false,
    logLevel: "warn",
    plugins: [
      {
        name: "page",
        resolveId: (id) => (id === page ? id : null),
        load: (id) => (id === page ? `export ${names} from ${JSON.stringify(index)};` : null),
      },
    ],
    build: { write: false, target: "es2022", minify: true, modulePreload: false, rolldownOptions: { input: page, preserveEntrySignatures: "strict" } },
  });
  const [bundle] = Array.isArray(result) ? result : [result];
  return gzipSync(bundle.output.map((o) => o.code ?? "").join(""), { level: 9 }).length;
}

let over = false;
for (const [what, names, budget] of [
  ["client: connect, send, follow", "{ ParleyClient, ParleyError, localOutbox }", 12_000],
  ["all: with the session store and the fold", "*", 16_000],
]) {
  const bytes = await size(names);
  console.log(`${what}: ${bytes} bytes gzip, budget ${budget}`);
  over ||= bytes > budget;
}
if (over) {
  console.error("over the budget");
  process.exit(1);
}
