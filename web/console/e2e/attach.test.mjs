// Files that are attached before the conversation exists.
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { api, openPage } from "./harness.mjs";
import { host } from "./host.mjs";
import { axe, browser, events, server, until } from "./suite.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(dirname(dirname(here)));
const notes = { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("hello file") };
const dot = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
const count = async () => (await api(server, "/sessions?limit=1000")).sessions.length;

/** Writes a message and attaches files to it in a new conversation; neither may be lost, and only sending creates the session. */
async function firstMessage(page, at) {
  const before = await count();
  const box = at.getByRole("textbox", { name: "Message", exact: true });
  await box.fill("look at these");
  await at.locator("input[type=file]").setInputFiles([notes]);
  await at.locator(".pl-composer").getByText("notes.txt").waitFor();
  await box.evaluate((el) => {
    const data = new DataTransfer();
    data.items.add(new File(["12345"], "pasted.csv", { type: "text/csv" }));
    el.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  });
  await at.locator(".pl-composer").getByText("5 B").waitFor();
  assert.equal(await box.inputValue(), "look at these");
  await at.locator(".pl-composer").getByText("10 B").waitFor();
  assert.equal(await count(), before);
  await box.press("Enter");
  await at.getByRole("feed").getByText("You said: look at these").waitFor();
  for (const name of ["notes.txt", "pasted.csv"]) await at.getByRole("feed").locator(".pl-user").getByRole("link", { name }).waitFor();
  // They are shown once, in the message.
  assert.deepEqual(await at.getByRole("feed").locator("article").filter({ hasText: "notes.txt" }).count(), 1);
  assert.equal(await count(), before + 1);
  assert.equal(await box.inputValue(), "");
  await until(page, () => box.evaluate((el) => el.getRootNode().activeElement === el), "focus on the composer");
  const { sessions } = await api(server, "/sessions?limit=1");
  const sent = (await events(sessions[0].session_id)).find((e) => e.type === "user.message");
  const files = sent.payload.content.filter((p) => p.type === "file");
  assert.deepEqual(files.map((f) => f.name), ["notes.txt", "pasted.csv"]);
  const stored = await fetch(`${server.url}/parley/v1/sessions/${sessions[0].session_id}/artifacts/${files[0].path}`);
  assert.equal(await stored.text(), "hello file");
  return sessions[0];
}

describe("files in a new conversation", () => {
  test("in the console", async () => {
    const { page, context, faults } = await openPage(browser);
    await page.goto(server.url);
    await page.getByRole("heading", { name: "demo" }).waitFor();
    await page.locator("input[type=file]").setInputFiles([notes]);
    await page.locator(".pl-composer").getByText("10 B").waitFor();
    await axe(page, "a file before the conversation");
    await page.getByRole("button", { name: "Remove notes.txt" }).click();
    const s = await firstMessage(page, page);
    assert.equal(new URL(page.url()).pathname, `/s/${s.session_id}`);
    assert.equal(s.title || s.heading, "look at these");
    assert.deepEqual(faults, []);
    await context.close();
  });

  test("a picture is shown before and after it is sent", async () => {
    const { page, context, faults } = await openPage(browser);
    await page.goto(server.url);
    await page.getByRole("heading", { name: "demo" }).waitFor();
    await page.locator("input[type=file]").setInputFiles([{ name: "dot.png", mimeType: "image/png", buffer: dot }]);
    const drawn = (where) => until(page, () => where.locator(".pl-thumb").evaluate((img) => img.naturalWidth === 1), "the picture");
    await drawn(page.locator(".pl-composer"));
    await page.getByRole("textbox", { name: "Message", exact: true }).fill("look");
    await page.keyboard.press("Enter");
    await page.getByRole("feed").getByText("You said: look").waitFor();
    await drawn(page.getByRole("feed"));
    // A click shows it.
    await page.getByRole("feed").getByRole("button", { name: "Preview: dot.png" }).click();
    await until(page, () => page.getByRole("dialog", { name: "dot.png" }).locator("img").evaluate((img) => img.naturalWidth === 1), "the picture in the dialog");
    await axe(page, "a picture");
    await page.keyboard.press("Escape");
    assert.deepEqual(await page.evaluate(() => window.violations), []);
    assert.deepEqual(faults, []);
    await context.close();
  });

  test("when an upload fails, the message stays; sent again, it is in one conversation", async () => {
    const { page, context } = await openPage(browser);
    const before = await count();
    await page.goto(server.url);
    await page.getByRole("heading", { name: "demo" }).waitFor();
    let refuse = true;
    await page.route("**/artifacts/**", (route) => (refuse ? route.fulfill({ status: 413, json: { error: { code: "too_large", message: "no room for it" } } }) : route.continue()));
    const box = page.getByRole("textbox", { name: "Message", exact: true });
    await page.locator("input[type=file]").setInputFiles([notes]);
    await box.fill("with a file");
    await box.press("Enter");
    await page.locator(".pl-composer").getByText("no room for it").waitFor();
    assert.equal(await box.inputValue(), "with a file");
    refuse = false;
    await until(page, async () => {
      await box.press("Enter");
      return page.getByRole("feed").getByText("You said: with a file").isVisible();
    }, "the message");
    await page.getByRole("feed").locator(".pl-user").getByRole("link", { name: "notes.txt" }).waitFor();
    assert.equal(await count(), before + 1);
    await context.close();
  });

  test("in the element of another page", async () => {
    const h = await host(server.url, [join(root, "examples", "web-element"), join(root, "web", "react", "dist")]);
    const { page, context } = await openPage(browser);
    await page.goto(h.url);
    await page.getByRole("button", { name: /^Ask me a question/ }).waitFor();
    await firstMessage(page, page);
    // The server refuses pictures to pages of other origins; the element fetches them.
    await page.locator("input[type=file]").setInputFiles([{ name: "dot.png", mimeType: "image/png", buffer: dot }]);
    await page.locator(".pl-composer").getByText("70 B").waitFor();
    await page.getByRole("textbox", { name: "Message", exact: true }).fill("a picture");
    await page.keyboard.press("Enter");
    const drawn = (img) => until(page, () => img.evaluate((el) => el.naturalWidth === 1), "the picture");
    await drawn(page.getByRole("feed").locator(".pl-thumb"));
    await page.getByRole("feed").getByRole("button", { name: "Preview: dot.png" }).click();
    await drawn(page.getByRole("dialog", { name: "dot.png" }).locator("img"));
    await context.close();
    h.close();
  });

  test("in a frame of another page", async () => {
    const h = await host(server.url, [here]);
    const { page, context } = await openPage(browser);
    await page.goto(`${h.url}/frame.html`);
    const frame = page.frameLocator("parley-frame iframe");
    await frame.getByRole("button", { name: /Ask a question that waits/ }).waitFor();
    await firstMessage(page, frame);
    await context.close();
    h.close();
  });
});
