// What a reader who has scrolled up sees while the conversation goes on.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { api, say } from "./harness.mjs";
import { atEnd, feed, inSession, post, server, steady, until } from "./suite.mjs";

/** Scrolls up in a long running answer, and watches the position of a row in view in every frame. */
async function readAbove(page) {
  await say(page, "/stream 60000 600");
  await until(page, async () => Number(/tok(\d+)\W*$/.exec((await feed(page).locator("article").allInnerTexts()).join(" ").match(/.*tok\d+/s)?.[0] ?? "")?.[1]) > 1500, "a long answer");
  await feed(page).hover();
  const away = page.getByRole("button", { name: /new|To the end/ });
  await until(page, async () => {
    await page.mouse.wheel(0, -300);
    return away.isVisible();
  }, "a reader away from the end");
  // Wheel events may still be on their way: wait until the row has stayed in its place for some frames.
  await page.evaluate(async () => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const list = document.querySelector(".pl-list");
    const box = list.getBoundingClientRect();
    const middle = () => [...list.querySelectorAll("article")].findLast((a) => a.getBoundingClientRect().top < box.top + box.height / 2);
    let row = middle();
    let top = row.getBoundingClientRect().top;
    for (let still = 0; still < 30; still++) {
      await frame();
      const now = row.getBoundingClientRect().top;
      if (now !== top || !row.isConnected) {
        still = 0;
        row = middle();
      }
      top = row.getBoundingClientRect().top;
    }
    window.row = row;
    window.moved = 0;
    const watch = () => {
      window.moved = Math.max(window.moved, row.isConnected ? Math.abs(row.getBoundingClientRect().top - top) : 9999);
      requestAnimationFrame(watch);
    };
    watch();
  });
}

const moved = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(window.moved)))));

describe("a reader who has scrolled up", () => {
  test("is not moved when somebody writes or stops the answer", () =>
    inSession(async (page, id) => {
      await readAbove(page);
      await post(id, { type: "user.message", payload: { text: "from somebody else" } });
      await page.getByRole("button", { name: /[1-9]\d* new/ }).waitFor();
      assert.ok((await moved(page)) <= 1.5, `a message moved the view by ${await moved(page)} px`);
      await api(server, `/sessions/${id}/stop`, {});
      await until(page, async () => (await api(server, `/sessions/${id}`)).status === "idle", "the end of both turns");
      await page.locator(".pl-dot", { hasText: "Idle" }).waitFor();
      assert.ok((await moved(page)) <= 1.5, `a stop moved the view by ${await moved(page)} px`);
      // At the end the order is that of the conversation.
      const [pill, list] = await Promise.all([page.locator(".pl-new").boundingBox(), page.locator(".pl-list").first().boundingBox()]);
      assert.ok(pill.y >= list.y + list.height - 1, "the button covers no entry");
      await page.getByRole("button", { name: /new|To the end/ }).click();
      await atEnd(page.locator(".pl-list"));
      await feed(page).getByText("You said: from somebody else").waitFor();
    }));

  test("sees their own message when they send one", () =>
    inSession(async (page) => {
      await readAbove(page);
      await say(page, "my own words");
      await until(page, () => feed(page).getByText("my own words", { exact: true }).first().isVisible(), "the message");
      await atEnd(page.locator(".pl-list"));
    }));
});

describe("a question that a person goes to", () => {
  const paragraphs = (name) => Array.from({ length: 12 }, (_, i) => ({ type: "agent.text", payload: { text: `${name} ${i}.\n\nMore of it.\n\nThe end of it.` } }));
  const question = { type: "agent.input_request", payload: { request_id: "q", input_type: "text", text: "Which vendor?" } };
  const field = (page) => page.getByRole("textbox", { name: "Which vendor?" });
  const focused = (page) => until(page, () => field(page).evaluate((el) => el === document.activeElement), "focus on the question");
  /** Answers with the keyboard; then the list follows the agent. */
  const answer = async (page, id) => {
    await page.locator(".pl-prompt-open[data-armed]").waitFor();
    await field(page).fill("Acme");
    await field(page).press("Control+Enter");
    await feed(page).getByText("You answered").waitFor();
    await post(id, ...paragraphs("Result"));
    await feed(page).getByText("Result 11.").waitFor();
    await atEnd(page.locator(".pl-list"));
    assert.equal(await page.locator(".pl-new").count(), 0);
  };

  test("at the end, with Alt+Q: nothing is below, and the result of the answer is seen", () =>
    inSession(async (page, id) => {
      await post(id, ...paragraphs("Before"), question);
      await field(page).waitFor();
      await page.keyboard.press("Alt+q");
      await focused(page);
      await steady(page, page.locator(".pl-list"));
      assert.equal(await page.locator(".pl-new").count(), 0, "the end is offered, but nothing is below");
      await answer(page, id);
    }, { session: { agent: "none" } }));

  test("far above, with Go: the result of the answer is seen", () =>
    inSession(async (page, id) => {
      await post(id, question, ...paragraphs("After"));
      await feed(page).getByText("After 11.").waitFor();
      await page.locator(".pl-waiting").getByRole("button", { name: "Go" }).click();
      await focused(page);
      // Whoever only looks at it stays there.
      await page.getByRole("textbox", { name: "Message", exact: true }).focus();
      await post(id, { type: "agent.text", payload: { text: "One more." } });
      await page.getByRole("button", { name: /1 new/ }).waitFor();
      assert.ok(await field(page).isVisible());
      await answer(page, id);
    }, { session: { agent: "none" } }));

  test("by its link: the result of the answer is seen", () =>
    inSession(async (page, id) => {
      await post(id, ...paragraphs("Before"), question);
      const { sequence } = (await api(server, `/sessions/${id}/events?limit=1000`)).events.find((e) => e.type === "agent.input_request");
      await page.goto(`${server.url}/inbox`);
      await page.goto(`${server.url}/s/${id}#at=${sequence}`);
      await focused(page);
      await answer(page, id);
    }, { session: { agent: "none" } }));
});
