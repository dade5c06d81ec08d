// Messages that are sent while the agent answers.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { say } from "./harness.mjs";
import { axe, events, feed, inSession, settled, stopButton, until } from "./suite.mjs";

/** The positions of texts among the shown entries; -1 when there is no such entry. */
async function places(page, ...texts) {
  const entries = await feed(page).locator("article").evaluateAll((all) => all.map((a) => a.innerText));
  return texts.map((t) => entries.findIndex((e) => e.includes(t)));
}

/** Waits until the entries with these texts are shown in this order. */
const inOrder = (page, ...texts) =>
  until(page, async () => {
    const at = await places(page, ...texts);
    return at.every((n, i) => n >= 0 && (i === 0 || n > at[i - 1]));
  }, `the order ${texts.join(", ")}`);

/** Starts an answer that takes long and has a few words. */
async function slowAnswer(page) {
  await say(page, "/stream 5000 5");
  await settled(page, "tok3");
}

const box = (page) => page.getByRole("textbox", { name: "Message", exact: true });

describe("queued messages", () => {
  test("a message waits below the running answer, and each answer follows its message", () =>
    inSession(async (page) => {
      await slowAnswer(page);
      await say(page, "second thing");
      await say(page, "third thing");
      await feed(page).locator("article", { hasText: "second thing" }).getByText("Queued").waitFor();
      await feed(page).locator("article", { hasText: "third thing" }).getByText("Queued").waitFor();
      await inOrder(page, "/stream", "tok3", "second thing", "third thing");
      await axe(page, "queued messages");
      await page.reload();
      await settled(page, "tok3");
      await inOrder(page, "/stream", "tok3", "second thing", "third thing");
      await stopButton(page).click();
      const whole = ["/stream", "tok3", "Stopped", "second thing", "You said: second thing", "third thing", "You said: third thing"];
      await inOrder(page, ...whole);
      await page.reload();
      await inOrder(page, ...whole);
    }));

  test("withdrawn messages keep their places below the answer, and offer nothing", () =>
    inSession(async (page) => {
      await slowAnswer(page);
      await say(page, "the B message");
      await say(page, "the C message");
      const of = (text) => feed(page).locator("article", { hasText: text });
      await of("the C message").getByRole("button", { name: "Edit" }).click();
      await of("the C message").getByText("Withdrawn").waitFor();
      await of("the B message").getByRole("button", { name: "Withdraw" }).click();
      await of("the B message").getByText("Withdrawn").waitFor();
      await inOrder(page, "tok3", "the B message", "the C message");
      await of("the B message").hover();
      for (const text of ["the B message", "the C message"]) assert.equal(await of(text).getByRole("button", { name: /^(Edit|Answer again)$/ }).count(), 0, text);
      await stopButton(page).click();
      await settled(page, "Stopped");
      await inOrder(page, "tok3", "the B message", "the C message");
      assert.equal(await feed(page).locator(".pl-notice, .pl-cut").count(), 1, "a stop is one row");
    }));

  test("a queued message can be edited: it is withdrawn and its text is in the composer", () =>
    inSession(async (page, id) => {
      await slowAnswer(page);
      await page.locator("input[type=file]").setInputFiles([{ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("hello file") }]);
      await page.locator(".pl-composer").getByText("10 B").waitFor();
      await say(page, "a first vresion");
      const message = feed(page).locator("article", { hasText: "a first vresion" });
      await box(page).fill("and this");
      await message.getByRole("button", { name: "Edit" }).click();
      await until(page, async () => (await box(page).inputValue()) === "a first vresion\nand this", "the text in the composer");
      await page.locator(".pl-composer").getByText("notes.txt").waitFor();
      await message.getByText("Withdrawn").waitFor();
      assert.equal(await box(page).evaluate((el) => el === document.activeElement), true);
      await say(page, "a second version");
      await feed(page).locator("article", { hasText: "a second version" }).getByText("Queued").waitFor();
      await stopButton(page).click();
      await settled(page, "You said: a second version");
      const sent = (await events(id)).filter((e) => e.type === "user.message").at(-1);
      assert.deepEqual(sent.payload.content.filter((p) => p.type === "file").map((p) => p.name), ["notes.txt"]);
      assert.equal(await feed(page).getByText("You said: a first vresion").count(), 0);
    }));
});
