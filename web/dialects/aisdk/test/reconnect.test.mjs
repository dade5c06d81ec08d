// useChat of versions 5 and 6 in Chromium: a page whose connection was lost has each word once.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { openTab, root, startBrowser } from "../../../testing/server.mjs";
import { startServer } from "../chat.mjs";

const here = join(root, "web/dialects/aisdk");
let server, browser;
before(async () => {
  [server, browser] = await Promise.all([startServer(), startBrowser(chromium)]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Serves the page with the packages of a version. */
async function serve(version) {
  const vite = await import(join(root, "examples/aisdk-page/node_modules/vite/dist/node/index.js"));
  const config = {
    root: join(here, "page"), configFile: false, logLevel: "error", mode: version,
    oxc: { jsx: { runtime: "automatic" } },
    resolve: { alias: { "@ai-sdk/react": join(here, `node_modules/react${version}`), ai: join(here, `node_modules/ai${version}`) }, dedupe: ["react", "react-dom"] },
    build: { outDir: join(here, `node_modules/.page${version}`), emptyOutDir: true, target: "es2022" },
    // The proxy of Vite keeps a response open when its server has gone.
    preview: { host: "127.0.0.1", port: 0, proxy: { "/api": { target: server.url, configure: (p) => p.on("proxyRes", (from, _, to) => from.on("close", () => from.complete || to.destroy())) } } },
  };
  await vite.build(config);
  return vite.preview(config);
}

for (const version of ["5", "6"]) {
  test(`a page of version ${version} goes on after a kill of the server`, async () => {
    const web = await serve(version);
    const { page, say } = await openTab(browser, `${web.resolvedUrls.local[0]}?chat=lost-${version}`);
    await say("/stream 200 40");
    const answer = page.getByRole("listitem").last();
    await answer.getByText(/tok12\b/).waitFor();
    await server.kill();
    await server.again();
    await answer.getByText(/tok200$/).waitFor({ timeout: 60_000 });
    assert.equal(await answer.innerText(), Array.from({ length: 200 }, (_, i) => `tok${i + 1}`).join(" "));
    await page.close();
    await web.close();
  });
}
