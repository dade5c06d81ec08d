// The tour of the demo agent, from the empty page to its end.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { api, openPage, say, startServer } from "./harness.mjs";
import { atEnd, axe, browser, events, feed, insist, openPanel, server, settled, steady, until } from "./suite.mjs";

const inView = (page, locator) => until(page, () => locator.evaluate((el) => {
  const b = el.getBoundingClientRect();
  return el.contains(document.elementFromPoint(b.x + b.width / 2, b.y + b.height / 2));
}).catch(() => false), "something in view");

describe("the first minute", () => {
  test("the first page says what this is, offers four things in plain words, and how to connect an agent", async () => {
    const { page, context, faults } = await openPage(browser);
    await page.goto(server.url);
    await page.getByText("Talk with your agents, watch them work, and answer what they ask.").waitFor();
    const cards = page.locator(".pl-card");
    await until(page, async () => (await cards.count()) === 4, "four cards");
    assert.deepEqual((await cards.allInnerTexts()).filter((t) => t.includes("/")), [], "a card shows a command");
    await page.getByText("Connect an agent of your own").click();
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    const copy = (what) => page.getByRole("button", { name: `Copy: ${what}` });
    await copy("Your own code").click();
    await page.getByText("Copied").first().waitFor();
    const program = await page.evaluate(() => navigator.clipboard.readText());
    assert.ok(program.includes(`"${server.url.replace("http", "ws")}/parley/v1/agents/mine/work"`), program);
    await axe(page, "first page");
    const wide = await page.locator(".co-snippet").evaluateAll((all) => all.filter((el) => el.getBoundingClientRect().right > el.closest("dl").getBoundingClientRect().right).length);
    assert.equal(wide, 0, "a long line scrolls in its own box");
    // The configurations are complete: a server starts with each.
    const dir = mkdtempSync(join(tmpdir(), "parley-connect-"));
    for (const [what, kind] of [["A language model", "model"], ["A program that answers over HTTP", "ndjson"]]) {
      await copy(what).click();
      const file = join(dir, "parley.yaml");
      writeFileSync(file, await until(page, async () => {
        const text = await page.evaluate(() => navigator.clipboard.readText());
        return text.includes(`kind: ${kind}`) && text;
      }, kind), { mode: 0o600 });
      const own = await startServer("--config", file);
      assert.equal((await api(own, "/agents")).agents.find((a) => a.name === "mine")?.kind, kind);
      await own.stop();
    }
    rmSync(dir, { recursive: true, force: true });
    await cards.getByText("Ask a question that waits for your answer").click();
    await page.getByRole("radio").first().waitFor();
    await page.getByRole("heading", { name: "Ask a question that waits for your answer" }).waitFor();
    await page.getByRole("link", { name: /Inbox.*1 needs you/ }).waitFor();
    assert.deepEqual(faults, []);
    await context.close();
  });
});

describe("the tour", () => {
  test("[8] [13] [24] after each answer the list follows the end, and the buttons of a prompt stay in view", async () => {
    const { page, context, faults } = await openPage(browser);
    await page.goto(server.url);
    await say(page, "/tour");
    await page.getByRole("radio", { name: /Previous quarter/ }).check();
    await axe(page, "tour, question");
    await insist(page, page.getByRole("button", { name: "Send answer" }), page.getByRole("button", { name: "Approve once" }));
    await settled(page, "You answered: Previous quarter");
    // The list scrolls to the new card, and its buttons stay in view when it grows.
    await inView(page, page.getByRole("button", { name: "Approve once" }));
    await page.getByRole("button", { name: "Edit arguments" }).click();
    await inView(page, page.getByRole("button", { name: "Approve once" }));
    await page.getByRole("textbox", { name: "Arguments send_mail" }).fill('{"to":"board@example.com"}');
    await insist(page, page.getByRole("button", { name: "Approve once" }), feed(page).getByText("That was the tour."));
    await page.locator(".pl-dot", { hasText: "Idle" }).waitFor();
    await atEnd(page.locator(".pl-list"));
    assert.equal(await page.locator(".pl-new").count(), 0, "the reader is at the end and is offered to go there");
    const log = await events(page.url().split("/").pop());
    assert.deepEqual(log.find((e) => e.type === "agent.tool_call" && e.payload.tool === "send_mail").payload.params, { to: "board@example.com" });
    // After a reload all entries are shown, and the answers are marked as the person's own.
    await page.reload();
    await settled(page, "That was the tour.");
    await settled(page, "You answered: Previous quarter");
    await openPanel(page);
    await page.getByRole("tab", { name: "Work" }).click();
    for (const name of ["Copper", "Freight"]) await page.getByRole("complementary", { name: "Work" }).getByRole("button", { name: new RegExp(`^${name}.*completed`) }).waitFor();
    assert.deepEqual(faults, []);
    await context.close();
  });

  test("[8] a prompt that is being answered does not scroll away when entries follow", async () => {
    const { page, context } = await openPage(browser);
    await page.goto(server.url);
    await say(page, "/ask text");
    const field = page.getByRole("textbox", { name: "What is your name?" });
    await field.fill("An");
    const session = page.url().split("/").pop();
    const post = (text) => fetch(`${server.url}/parley/v1/sessions/${session}/events`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ type: "user.message", payload: { text } }) });
    const place = async () => Math.round((await field.boundingBox()).y);
    await steady(page, page.locator(".pl-list"));
    const before = await place();
    for (let i = 0; i < 12; i++) await post(`queued ${i}\n\nand more`);
    await page.getByRole("button", { name: /12 new/ }).waitFor();
    await steady(page, page.locator(".pl-list"));
    assert.equal(await place(), before);
    await field.pressSequentially("n");
    // The list follows the answer and the queued message to the end.
    await insist(page, page.getByRole("button", { name: "Send answer" }), feed(page).getByText("You said: queued 11"));
    assert.equal((await events(session)).find((e) => e.type === "user.input_response").payload.text, "Ann");
    await atEnd(page.locator(".pl-list"));
    await context.close();
  });
});
