// The page in Chromium: a run, an approval, a reload and a kill of the server in the middle of a run, a second device, and a client of another dialect.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { createServer } from "vite";
import WebSocket from "ws";
import { openTab, startBrowser, startServer, until } from "../../web/testing/server.mjs";

let parley, vite, browser;
before(async () => {
  parley = await startServer();
  process.env.PARLEY_URL = parley.url;
  vite = await createServer({ root: import.meta.dirname, server: { port: 0, host: "127.0.0.1" }, logLevel: "error" });
  await vite.listen();
  browser = await startBrowser(chromium);
});
after(async () => {
  await browser?.close();
  await vite?.close();
  await parley?.stop();
});

test("a conversation, an approval, a reload, a kill of the server and a second device", async () => {
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

  await say("/stream 90 20");
  await page.getByText(/tok10\b/).nth(1).waitFor();
  await parley.kill();
  await parley.again();
  await page.getByText(/tok1 .*tok90/).waitFor();
  const shown = await page.locator("main").innerText();
  for (const [text, times] of [["You said: hello", 1], ["tok1 tok2 ", 2], ["tok80", 2], ["tok90", 1]])
    assert.equal(shown.split(text).length - 1, times, `${text} in ${shown}`);
});

test("a kill of the server in the run after an answer", async () => {
  const { page, say } = await openTab(browser, `http://127.0.0.1:${vite.httpServer.address().port}/`);
  await say("/tour");
  await page.getByRole("button", { name: "Same quarter" }).click();
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("That was the tour").waitFor(); // its last text is being written
  await parley.kill();
  await parley.again();
  await page.getByText("All of it is in the log").waitFor();
  assert.equal((await page.locator("main").innerText()).split("That was the tour").length - 1, 1);
  await say("hello");
  await page.getByText("You said: hello").waitFor();
});

/** A client of the NeMo Agent Toolkit in the conversation: it sends texts, and waits for frames and texts. */
async function nemo(conversation) {
  const socket = new WebSocket(`${parley.url.replace("http", "ws")}/websocket?conversation_id=${conversation}`);
  const frames = [];
  socket.onmessage = (e) => frames.push(JSON.parse(e.data));
  await new Promise((done, failed) => ((socket.onopen = done), (socket.onerror = failed)));
  let sent = 0;
  return {
    send: (type, text, more) =>
      socket.send(JSON.stringify({ type, schema_type: "chat_stream", id: `m-${++sent}`, conversation_id: conversation, ...more, content: { messages: [{ role: "user", content: [{ type: "text", text }] }] } })),
    frame: (wanted) => until(() => frames.find(wanted)),
    // A text comes in one frame or in several.
    text: (wanted) => until(() => frames.map((f) => (f.type === "system_response_message" && f.content.text) || "").join("").includes(wanted)),
    close: () => socket.close(),
  };
}

test("a question in a conversation of NeMo is answered in the page, and one in the page by NeMo", async () => {
  const thread = crypto.randomUUID();
  const client = await nemo(thread);
  client.send("user_message", "/ask radio");
  await client.frame((f) => f.type === "system_interaction_message");
  const { page, say } = await openTab(browser, `http://127.0.0.1:${vite.httpServer.address().port}/?thread=${thread}`);
  await page.getByRole("button", { name: "SMS" }).click();
  await page.getByText("You answered: sms").waitFor();
  await client.text("You answered: sms");

  await say('/approve deploy {"env":"prod"}');
  await page.getByRole("button", { name: "Approve" }).waitFor();
  const asked = await client.frame((f) => f.type === "system_interaction_message" && f.content.input_type === "binary_choice");
  client.send("user_interaction_message", "continue", { thread_id: "default", parent_id: asked.parent_id });
  await client.text('deploy gave {"env":"prod"}');
  await page.reload(); // a page of CopilotKit reads nothing between its runs
  await page.getByText('deploy gave {"env":"prod"}').waitFor();
  client.close();
});
