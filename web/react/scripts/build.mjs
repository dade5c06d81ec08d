// Builds the package: declarations and modules by the compiler, one stylesheet from its parts.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, defaultClientConditions } from "vite";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(here, "dist");
rmSync(dist, { recursive: true, force: true });
mkdirSync(dist);
const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc");
execFileSync(process.execPath, [tsc, "-p", join(here, "tsconfig.build.json")], { stdio: "inherit" });
const css = readFileSync(join(here, "src", "styles.css"), "utf8").replace(/@import "(.+?)" layer\((.+?)\);/g, (_, file, layer) => {
  return `@layer ${layer} {\n${readFileSync(join(here, "src", file), "utf8")}}`;
});
writeFileSync(join(dist, "styles.css"), css);
writeFileSync(join(dist, "styles.css.d.ts"), "export {};\n"); // so that a strict compiler lets it be imported

// The element with everything it needs, for pages without a bundler. It registers itself. Colours for code, the chart
// library and the one for formulas are files beside it, loaded when they are needed. In its shadow root formulas are
// MathML, so that it needs no style sheet for them.
await build({
  configFile: false,
  logLevel: "warn",
  root: here,
  plugins: [{ name: "no-styles", enforce: "pre", load: (id) => (/katex.*\.css$/.test(id) ? "" : null) }],
  define: { "process.env.NODE_ENV": '"production"' },
  resolve: { conditions: ["parley-source", ...defaultClientConditions] },
  build: {
    target: "es2022",
    outDir: dist,
    emptyOutDir: false,
    rolldownOptions: { output: { chunkFileNames: "parley-conversation-[name].js" } },
    lib: { entry: join(here, "src", "standalone.ts"), formats: ["es"], fileName: () => "parley-conversation.js" },
  },
});
