// Fails when the component, as a page with React would load it, or the element in one file is over its budget.
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build, defaultClientConditions } from "vite";
import { inOneFile } from "./standalone.mjs";

const budget = 60_000;
const oneFileBudget = 290_000;
const result = await build({
  configFile: false,
  logLevel: "error",
  define: { "process.env.NODE_ENV": '"production"' },
  resolve: { conditions: ["parley-source", ...defaultClientConditions] },
  ssr: { noExternal: true, resolve: { conditions: ["parley-source", ...defaultClientConditions] } },
  build: {
    write: false,
    target: "es2022",
    minify: true,
    ssr: true, // without Vite's own code for fetching parts later: the package has none, the host's bundler adds its own
    rolldownOptions: {
      input: fileURLToPath(new URL("../src/index.ts", import.meta.url)),
      preserveEntrySignatures: "strict",
      external: [/^react($|\/)/, /^react-dom($|\/)/],
    },
  },
});
const { output } = Array.isArray(result) ? result[0] : result;
const chunks = new Map(output.filter((o) => o.type === "chunk").map((o) => [o.fileName, o]));
const first = new Set();
const take = (name) => {
  const c = chunks.get(name);
  if (!c || first.has(c)) return;
  first.add(c);
  c.imports.forEach(take);
};
take([...chunks.values()].find((c) => c.isEntry).fileName);
const gz = (list) => list.reduce((n, c) => n + gzipSync(c.code, { level: 9 }).length, 0);
const bytes = gz([...first]);
console.log(`<Conversation> without React: ${bytes} bytes gzip, budget ${budget}; loaded when needed: ${gz([...chunks.values()].filter((c) => !first.has(c)))}`);
if ([...first].some((c) => c.moduleIds.some((id) => /node_modules\/(vega|katex)/.test(id)))) throw new Error("a large library is loaded at once");
if (bytes > budget) throw new Error("over the budget");

const [{ output: whole }] = await inOneFile(false);
const oneFile = gz(whole);
console.log(`<parley-conversation> in one file, with React: ${oneFile} bytes gzip, budget ${oneFileBudget}`);
if (whole.length > 1) throw new Error("it is not one file");
if (oneFile > oneFileBudget) throw new Error("over the budget");
