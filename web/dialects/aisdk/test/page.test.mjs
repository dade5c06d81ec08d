// The example pages in Chromium: useChat and assistant-ui, both with resume.
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
const webs = []; // web servers of the pages
let server, browser;

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

/** Builds an example page and returns its address. */
async function start(name) {
  const example = join(root, "examples", name);
  const npm = (...args) => {
    const run = spawnSync("npm", args, { cwd: example, encoding: "utf8" });
    assert.equal(run.status, 0, run.stdout + run.stderr);
  };
  if (!existsSync(join(example, "node_modules/.package-lock.json"))) npm("ci", "--no-audit", "--no-fund");
  npm("run", "build");
  const web = serve(join(example, "dist"), server.url);
  webs.push(web);
  await new Promise((done) => web.listen(0, "127.0.0.1", done));
  return `http://127.0.0.1:${web.address().port}/`;
}

/** A tab with a page, and the errors that it reported. */
async function openTab(url) {
  const page = await browser.newPage({ viewport: { width: 900, height: 700 } });
  page.setDefaultTimeout(60_000);
  const faults = [];
  page.on("pageerror", (e) => faults.push(e.message));
  await page.goto(url);
  const say = async (text) => {
    await page.getByRole("textbox", { name: "Message" }).fill(text);
    await page.getByRole("button", { name: "Send" }).click();
  };
  const screenshot = async (name) => {
    if (process.env.SCREENSHOTS) await page.screenshot({ path: join(process.env.SCREENSHOTS, `${name}.png`) });
  };
  return { page, faults, say, screenshot, button: (name) => page.getByRole("button", { name }) };
}

const tokens = (n) => Array.from({ length: n }, (_, i) => `tok${i + 1}`).join(" ");

before(async () => {
  server = await startServer();
  const executablePath = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((p) => existsSync(p));
  browser = await chromium.launch({ executablePath, args: ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
});
after(async () => {
  await browser?.close();
  for (const web of webs) {
    web.close();
    web.closeAllConnections();
  }
  await server?.stop();
});

test("the page with useChat streams, survives a reload, decides, answers and stops", async () => {
  const { page, faults, say, screenshot, button } = await openTab(await start("aisdk-page"));
  const last = page.getByRole("list", { name: "Messages" }).locator("> li").last();

  await say("/stream 60 30");
  await last.getByText(/tok8/).waitFor();
  await page.reload();
  await last.getByText(/tok60$/).waitFor();
  assert.equal(await last.innerText(), tokens(60));

  await say('/approve deploy {"env":"prod"}');
  await last.getByRole("button", { name: "Approve" }).waitFor();
  await page.reload();
  await last.getByRole("button", { name: "Approve" }).click();
  await last.getByText("output-available").waitFor();

  await say("/ask radio");
  await last.getByRole("button").first().click();
  await last.locator("> p").first().waitFor();
  await button("Send").waitFor();
  await screenshot("aisdk-page");

  await say("/stream 100000 50");
  await last.getByText(/tok8/).waitFor();
  await button("Stop").click();
  await button("Send").waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
  assert.deepEqual(faults, []);
});

test("the page with assistant-ui survives a reload, shows a second tab the same chat, decides, answers and stops", async () => {
  const first = await openTab(await start("assistant-ui-page"));
  const last = (tab) => tab.page.getByRole("log", { name: "Messages" }).getByRole("article").last();

  await first.say("/stream 120 30");
  await last(first).getByText(/tok8/).waitFor();
  await first.page.reload();
  await last(first).getByText(/tok30/).waitFor();
  const second = await openTab(first.page.url());
  for (const tab of [first, second]) {
    await last(tab).getByText(/tok120$/).waitFor();
    assert.equal(await last(tab).innerText(), tokens(120));
    assert.equal(await tab.page.getByRole("article").count(), 2);
    await tab.button("Send").waitFor();
  }

  await first.say('/approve deploy {"env":"prod"}');
  await last(first).getByRole("button", { name: "Approve" }).waitFor();
  await second.page.reload();
  await last(second).getByRole("button", { name: "Approve" }).waitFor();
  await first.page.reload();
  await last(first).getByRole("button", { name: "Approve" }).click();
  await last(first).getByRole("status").waitFor();
  const result = await last(first).getByRole("status").innerText();
  await last(second).getByRole("button", { name: "Deny" }).click(); // too late: the call was approved
  await last(second).getByRole("status").waitFor();
  assert.equal(await last(second).getByRole("status").innerText(), result);

  await first.button("Send").waitFor();
  await first.say("/ask radio");
  await last(first).getByRole("button").first().click();
  await last(first).locator("> p").first().waitFor();
  await first.button("Send").waitFor();
  await first.screenshot("assistant-ui-page");

  await first.say("/stream 100000 50");
  await last(first).getByText(/tok8/).waitFor();
  await first.button("Stop").click();
  await first.button("Send").waitFor();
  for (const tab of [first, second]) {
    assert.equal(await tab.page.getByRole("alert").count(), 0);
    assert.deepEqual(tab.faults, []);
  }
});
