// The page in Chromium: a run, an approval, a reload in the middle of a run, and a second device.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { createServer } from "vite";
import { openTab, startBrowser, startServer } from "../../web/testing/server.mjs";

let parley, vite, browser;
before(async () => {
  parley = await startServer();
  process.env.PARLEY = parley.url;
  vite = await createServer({ root: import.meta.dirname, server: { port: 0, host: "127.0.0.1" }, logLevel: "error" });
  await vite.listen();
  browser = await startBrowser(chromium);
});
after(async () => {
  await browser?.close();
  await vite?.close();
  await parley?.stop();
});

test("a conversation, an approval, a reload and a second device", async () => {
  const { page, say, screenshot } = await openTab(browser, `http://127.0.0.1:${vite.httpServer.address().port}/`);
  await say("hello");
  await page.getByText("You said: hello").waitFor();

  await say('/approve deploy {"env":"prod"}');
  await page.getByRole("button", { name: "Approve" }).waitFor();
  await screenshot("copilotkit-page");
  const { page: phone } = await openTab(browser, page.url());
  await phone.getByText("You said: hello").waitFor();
  await phone.getByRole("button", { name: "Approve" }).click();
  await phone.getByText('deploy gave {"env":"prod"}').waitFor();

  await page.reload();
  await page.getByText('deploy gave {"env":"prod"}').waitFor();
  await say("/stream 80 20");
  await page.getByText(/tok10\b/).waitFor();
  await page.reload();
  await page.getByText(/tok1 .*tok80/).waitFor();
  await screenshot("copilotkit-page-end");
  assert.equal(await page.getByText("You said: hello").count(), 1);
});
