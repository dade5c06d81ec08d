// Builds the package: declarations and modules by the compiler, one stylesheet from its parts, the element for pages without a bundler.
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { css, dist, here, inOneFile, inParts } from "./standalone.mjs";

rmSync(dist, { recursive: true, force: true });
mkdirSync(dist);
const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc");
execFileSync(process.execPath, [tsc, "-p", join(here, "tsconfig.build.json")], { stdio: "inherit" });
writeFileSync(join(dist, "styles.css"), css);
writeFileSync(join(dist, "styles.css.d.ts"), "export {};\n"); // so that a strict compiler lets it be imported
await inParts();
await inOneFile();
