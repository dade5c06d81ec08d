// The example pages in Chromium: useChat and assistant-ui, both with resume.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { openTab, root, startBrowser } from "../../../testing/server.mjs";
import { startServer } from "../chat.mjs";

const webs = []; // web servers of the pages
let server, browser;

/** Builds an example page, serves it with Vite, which passes the rest on to Parley, and opens it in a tab. */
async function open(name) {
  const example = join(root, "examples", name);
  if (!existsSync(join(example, "node_modules/.package-lock.json"))) {
    const run = spawnSync("npm", ["ci", "--include=dev", "--no-audit", "--no-fund"], { cwd: example, encoding: "utf8" });
    assert.equal(run.status, 0, run.stdout + run.stderr);
  }
  const vite = await import(join(example, "node_modules/vite/dist/node/index.js"));
  await vite.build({ root: example, logLevel: "error" });
  const web = await vite.preview({ root: example, logLevel: "error", preview: { host: "127.0.0.1", port: 0 } });
  webs.push(web);
  return tab(web.resolvedUrls.local[0]);
}

async function tab(url) {
  const it = await openTab(browser, url);
  return { ...it, button: (name) => it.page.getByRole("button", { name }) };
}

const tokens = (n) => Array.from({ length: n }, (_, i) => `tok${i + 1}`).join(" ");

before(async () => {
  [server, browser] = await Promise.all([startServer(), startBrowser(chromium)]);
  process.env.PARLEY_URL = server.url;
});
after(async () => {
  await browser?.close();
  await Promise.all(webs.map((web) => web.close()));
  await server?.stop();
});

test("the page with useChat streams, survives a reload and a kill of the server, decides, answers and stops", async () => {
  const { page, faults, say, screenshot, button } = await open("aisdk-page");
  const last = page.getByRole("list", { name: "Messages" }).locator("> li").last();

  await say("/stream 60 30");
  await last.getByText(/tok8/).waitFor();
  await page.reload();
  await last.getByText(/tok60$/).waitFor();
  assert.equal(await last.innerText(), tokens(60));

  await say("/stream 80 30");
  await last.getByText(/tok8/).waitFor();
  await server.kill();
  await server.again();
  await last.getByText(/tok80$/).waitFor();
  assert.equal(await last.innerText(), tokens(80));

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

test("the page with assistant-ui survives a reload and a kill of the server, shows a second tab the same chat, decides, answers and stops", async () => {
  const first = await open("assistant-ui-page");
  const last = (tab) => tab.page.getByRole("log", { name: "Messages" }).getByRole("article").last();

  await first.say("/stream 120 30");
  await last(first).getByText(/tok8/).waitFor();
  await first.page.reload();
  await last(first).getByText(/tok30/).waitFor();
  const second = await tab(first.page.url());
  for (const tab of [first, second]) {
    await last(tab).getByText(/tok120$/).waitFor();
    assert.equal(await last(tab).innerText(), tokens(120));
    assert.equal(await tab.page.getByRole("article").count(), 2);
    await tab.button("Send").waitFor();
  }

  await first.say("/stream 80 30");
  await last(first).getByText(/tok8/).waitFor();
  await server.kill();
  await server.again();
  await last(first).getByText(/tok80$/).waitFor();
  assert.equal(await last(first).innerText(), tokens(80));

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
