// The element with everything it needs, for pages without a bundler. In its shadow root formulas are MathML, so that it needs no
// style sheet for them.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, defaultClientConditions } from "vite";

export const here = dirname(dirname(fileURLToPath(import.meta.url)));
export const dist = join(here, "dist");

/** The style sheet, made from its parts. */
export const css = readFileSync(join(here, "src", "styles.css"), "utf8").replace(/@import "(.+?)" layer\((.+?)\);/g, (_, file, layer) => {
  return `@layer ${layer} {\n${readFileSync(join(here, "src", file), "utf8")}}`;
});

function standalone(entry, file, write, { define = {}, plugins = [], output }) {
  return build({
    configFile: false,
    logLevel: "warn",
    root: here,
    plugins: [{ name: "no-styles", enforce: "pre", load: (id) => (/katex.*\.css$/.test(id) ? "" : null) }, ...plugins],
    define: { "process.env.NODE_ENV": '"production"', ...define },
    resolve: { conditions: ["parley-source", ...defaultClientConditions] },
    build: { write, target: "es2022", outDir: dist, emptyOutDir: false, rolldownOptions: { output: { minify: true, ...output } }, lib: { entry: join(here, "src", entry), formats: ["es"], fileName: () => file } },
  });
}

/** The element, with files beside it that are loaded when they are needed. It registers itself. */
export const inParts = () => standalone("standalone.ts", "parley-conversation.js", true, { output: { chunkFileNames: "parley-conversation-[name].js" } });

/** The same in one file, with its styles. Only the chart library is a file of its own, which a page can leave out. */
export async function inOneFile(write = true) {
  const charts = "parley-conversation.charts.js";
  const file = await standalone("onefile.ts", "parley-conversation.onefile.js", write, {
    define: { PARLEY_STYLES: JSON.stringify(css) },
    plugins: [{ name: "charts-beside", enforce: "pre", resolveId: (id) => (id.endsWith("/vegalib.js") ? { id: `./${charts}`, external: true } : null) }],
    output: { codeSplitting: false },
  });
  if (write) await standalone(join("artifacts", "vegalib.ts"), charts, write, { output: { codeSplitting: false } });
  return file;
}
