// The page in Chromium: a run, an approval, a reload in the middle of a run, and a second device.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { createServer } from "vite";
import { startServer } from "../../web/dialects/agui/harness.mjs";

let parley, vite, browser;
before(async () => {
  parley = await startServer();
  process.env.PARLEY = parley.url;
  vite = await createServer({ root: import.meta.dirname, server: { port: 0, host: "127.0.0.1" }, logLevel: "error" });
  await vite.listen();
  const executablePath = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((p) => existsSync(p));
  browser = await chromium.launch({ executablePath, args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"] });
});
after(async () => {
  await browser?.close();
  await vite?.close();
  await parley?.stop();
});

async function open(address) {
  const context = await browser.newContext({ viewport: { width: 900, height: 700 } });
  // Only this machine is reached.
  await context.route("**/*", (route) => (new URL(route.request().url()).hostname === "127.0.0.1" ? route.continue() : route.abort()));
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  await page.goto(address ?? `http://127.0.0.1:${vite.httpServer.address().port}/`);
  return page;
}

async function say(page, text) {
  const box = page.getByRole("textbox").first();
  await box.fill(text);
  await box.press("Enter");
}

test("a conversation, an approval, a reload and a second device", async () => {
  const page = await open();
  await say(page, "hello");
  await page.getByText("You said: hello").waitFor();

  await say(page, '/approve deploy {"env":"prod"}');
  await page.getByRole("button", { name: "Approve" }).waitFor();
  if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/copilotkit-page.png` });
  const phone = await open(page.url());
  await phone.getByText("You said: hello").waitFor();
  await phone.getByRole("button", { name: "Approve" }).click();
  await phone.getByText('deploy gave {"env":"prod"}').waitFor();

  await page.reload();
  await page.getByText('deploy gave {"env":"prod"}').waitFor();
  await say(page, "/stream 80 20");
  await page.getByText(/tok10\b/).waitFor();
  await page.reload();
  await page.getByText(/tok1 .*tok80/).waitFor();
  if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/copilotkit-page-end.png` });
  assert.equal(await page.getByText("You said: hello").count(), 1);
});
