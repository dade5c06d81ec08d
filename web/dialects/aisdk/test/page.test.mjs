// The example page in Chromium: useChat with resume.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { dirname, extname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { startServer } from "../server.mjs";

const root = dirname(dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url))))));
const example = join(root, "examples/aisdk-page");
let server, web, browser, page;

/** Serves the built page and passes the rest on to Parley, as the development server of the example does. */
function serve(dist, parley) {
  const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
  return createServer((req, res) => {
    if (/^\/(api|parley)\//.test(req.url)) {
      const to = request(`${parley}${req.url}`, { method: req.method, headers: { ...req.headers, host: new URL(parley).host } }, (from) => {
        res.writeHead(from.statusCode, from.headers);
        from.pipe(res);
      });
      to.on("error", () => res.destroy());
      res.on("close", () => to.destroy());
      return req.pipe(to);
    }
    const file = join(dist, req.url.split("?")[0] === "/" ? "index.html" : req.url);
    if (!existsSync(file)) return res.writeHead(404).end();
    res.writeHead(200, { "Content-Type": types[extname(file)] ?? "application/octet-stream" }).end(readFileSync(file));
  });
}

before(async () => {
  const npm = (...args) => {
    const run = spawnSync("npm", args, { cwd: example, encoding: "utf8" });
    assert.equal(run.status, 0, run.stdout + run.stderr);
  };
  if (!existsSync(join(example, "node_modules/.package-lock.json"))) npm("ci", "--no-audit", "--no-fund");
  npm("run", "build");
  server = await startServer();
  web = serve(join(example, "dist"), server.url);
  await new Promise((done) => web.listen(0, "127.0.0.1", done));
  const executablePath = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((p) => existsSync(p));
  browser = await chromium.launch({ executablePath, args: ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
  page = await browser.newPage({ viewport: { width: 900, height: 700 } });
  page.setDefaultTimeout(60_000);
});
after(async () => {
  await browser?.close();
  web?.close();
  web?.closeAllConnections();
  await server?.stop();
});

test("the example page streams, survives a reload, decides, answers and stops", async () => {
  const faults = [];
  page.on("pageerror", (e) => faults.push(e.message));
  await page.goto(`http://127.0.0.1:${web.address().port}/`);
  const say = async (text) => {
    await page.getByRole("textbox", { name: "Message" }).fill(text);
    await page.getByRole("button", { name: "Send" }).click();
  };
  const last = page.getByRole("list", { name: "Messages" }).locator("> li").last();

  await say("/stream 60 30");
  await last.getByText(/tok8/).waitFor();
  await page.reload();
  await last.getByText(/tok60$/).waitFor();
  assert.equal(await last.innerText(), Array.from({ length: 60 }, (_, i) => `tok${i + 1}`).join(" "));

  await say('/approve deploy {"env":"prod"}');
  await last.getByRole("button", { name: "Approve" }).waitFor();
  await page.reload();
  await last.getByRole("button", { name: "Approve" }).click();
  await last.getByText("output-available").waitFor();

  await say("/ask radio");
  await last.getByRole("button").first().click();
  await last.locator("> p").first().waitFor();
  await page.getByRole("button", { name: "Send" }).waitFor();
  if (process.env.SCREENSHOT) await page.screenshot({ path: process.env.SCREENSHOT });

  await say("/stream 100000 50");
  await last.getByText(/tok8/).waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Send" }).waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
  assert.deepEqual(faults, []);
});
