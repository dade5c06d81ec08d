// Workstreams of the demo agent: lanes, steering, cancelling; and the plan.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { api, say } from "./harness.mjs";
import { axe, events, feed, inSession, openPanel, openPanelWithWork, post, server, settled, shows, stopButton, until } from "./suite.mjs";

const lane = (page, name) => page.getByRole("complementary").getByRole("button", { name: new RegExp(`^${name}\\b`) });
const steer = async (page, name, verb) => {
  await page.getByLabel(`Steer ${name}`).click();
  await page.locator(".pl-pop").getByRole("button", { name: verb, exact: true }).click();
};
const thread = (page, name) => page.locator(".pl-thread", { hasText: name }).first();
const stored = (page, id, type, matches) => until(page, async () => (await events(id)).find((e) => e.type === type && matches(e.payload)), type);

describe("workstreams", () => {
  test("[23] eight at once: in order, with their phase and the server's time left", () =>
    inSession(async (page, id) => {
      await say(page, "/work 8 900 deadline=900");
      await openPanelWithWork(page);
      await page.getByText("8 running").first().waitFor();
      const names = await page.locator(".pl-lane-title").allInnerTexts();
      assert.deepEqual(names, ["Part 1", "Part 2", "Part 3", "Part 4", "Part 5", "Part 6", "Part 7", "Part 8"]);
      assert.equal(await page.locator(".pl-tick75").count(), 8);
      assert.equal(await page.locator(".pl-tick90").count(), 8);
      const launched = (await events(id)).find((e) => e.type === "workstream.launched" && e.payload.name === "Part 5");
      await until(page, async () => {
        const from = Date.now();
        const shown = /(\d+):(\d\d) left/.exec(await lane(page, "Part 5").innerText());
        return shown && shows(Number(shown[1]) * 60 + Number(shown[2]), Date.parse(launched.payload.deadline), from, Date.now());
      }, "the right time left");
      await axe(page, "lanes at work");
      await page.getByRole("button", { name: "As table" }).click();
      const table = page.getByRole("table", { name: "Work" });
      assert.equal(await table.getByRole("row").count(), 9);
      await table.getByRole("rowheader", { name: "Part 3" }).waitFor();
      await axe(page, "work as a table");
      await page.getByRole("button", { name: "Stop" }).first().click();
    }));

  test("[24] steering, pausing and cancelling reach the workstream and are shown as entries", () =>
    inSession(async (page, id) => {
      await say(page, "/work 3 900 deadline=1200");
      await openPanelWithWork(page);
      await page.getByText("3 running").first().waitFor();
      for (const [verb, words] of [["Add an instruction", "be brief"], ["Add a constraint", "no jargon"], ["Send a message", "how is it going?"]]) {
        await steer(page, "Part 1", verb);
        await page.locator(".pl-steer textarea").fill(words);
        await page.locator(".pl-steer").getByRole("button", { name: "Send" }).click();
        await page.locator(".pl-steer").waitFor({ state: "detached" });
      }
      await steer(page, "Part 1", "Set its priority");
      await page.locator(".pl-steer select").selectOption("high");
      await page.locator(".pl-steer").getByRole("button", { name: "Send" }).click();
      await steer(page, "Part 2", "Pause");
      await lane(page, "Part 2").getByText("paused").first().waitFor();
      await steer(page, "Part 2", "Resume");
      await lane(page, "Part 2").getByText("paused").first().waitFor({ state: "detached" });
      for (const [command, text] of [["add_instruction", "be brief"], ["add_constraint", "no jargon"], ["set_priority", "high"], ["pause_requested", undefined], ["resume_requested", undefined]])
        await stored(page, id, "workstream.steered", (p) => p.command === command && p.text === text);
      await settled(page, "Instruction for Part 1: be brief");
      await settled(page, "Part 2 was asked to pause");
      await steer(page, "Part 3", "Cancel the work");
      await page.locator(".pl-steer textarea").fill("not needed");
      await axe(page, "steering");
      await page.locator(".pl-steer").getByRole("button", { name: "Cancel the work" }).click();
      await lane(page, "Part 3").getByText("cancelled").first().waitFor();
      await stored(page, id, "workstream.canceling", (p) => p.reason === "not needed");
      await page.getByRole("button", { name: "Stop" }).first().click();
    }));

  test("[24] filtered by one workstream: only its entries, the prompts of all, and a button that shows everything", () =>
    inSession(async (page, id) => {
      await say(page, "/work 2 60 deadline=1200");
      await thread(page, "Part 1").locator("summary").first().click();
      await feed(page).getByText("Part 1, chapter 1", { exact: false }).first().waitFor();
      await post(id, { type: "agent.input_request", payload: { request_id: "q", input_type: "text", text: "Which vendor?" } });
      await openPanel(page);
      await lane(page, "Part 1").click();
      await thread(page, "Part 2").waitFor({ state: "detached" });
      await feed(page).getByText("Part 1, chapter", { exact: false }).first().waitFor();
      await page.getByRole("textbox", { name: "Which vendor?" }).waitFor();
      assert.equal(await page.getByRole("textbox", { name: "Message", exact: true }).getAttribute("placeholder"), "Message Part 1");
      await page.getByRole("button", { name: "Show everything" }).click();
      await thread(page, "Part 2").waitFor();
    }));

  test("a workstream is one row with its activity and time; it opens to its transcript, in the list and beside it", () =>
    inSession(async (page, id) => {
      await say(page, "/work 2 60 deadline=1200");
      const row = thread(page, "Part 2");
      await row.getByText(/ left/).waitFor();
      await row.locator(".pl-timebar").waitFor();
      await until(page, async () => (await events(id)).some((e) => e.type === "agent.text" && e.workstream_id), "a text of a workstream");
      assert.equal(await feed(page).getByText(/^Part \d, chapter/).count(), 0);
      const colours = await page.locator(".pl-thread").evaluateAll((all) => all.map((el) => getComputedStyle(el.querySelector("summary"), "::before").backgroundColor));
      assert.equal(new Set(colours).size, 2);
      const shapes = await page.locator(".pl-thread").evaluateAll((all) => all.map((el) => getComputedStyle(el.querySelector("summary"), "::before").clipPath));
      assert.equal(new Set(shapes).size, 2, "without colours they differ by their shape");
      // The bar is the time that is left: nearly all of it.
      const share = await row.locator(".pl-timebar > span").evaluate((el) => el.getBoundingClientRect().width / el.parentElement.getBoundingClientRect().width);
      assert.ok(share > 0.5, `${share} of the time is left`);
      await row.locator("summary").first().click();
      await row.getByText(/^Part 2, chapter 1/).first().waitFor();
      assert.equal(await feed(page).getByText(/^Part 1, chapter/).count(), 0);
      await axe(page, "thread");
      await openPanel(page);
      const panel = page.getByRole("complementary");
      await panel.getByText("Transcript").first().click();
      await panel.getByText(/^Part 1, chapter 1/).first().waitFor();
      // A list that is not opaque is drawn again whenever it scrolls, and a growing text scrolls in every frame.
      const lists = await page.locator(".pl-list").evaluateAll((all) => all.map((el) => ({ fill: getComputedStyle(el).backgroundColor, inside: el.closest(".pl-thread-body")?.parentElement.getBoundingClientRect().bottom - el.getBoundingClientRect().bottom })));
      assert.equal(lists.length, 3);
      for (const { fill, inside } of lists) {
        assert.match(fill, /^rgb\(/);
        assert.ok(Number.isNaN(inside) || inside >= 8, `${inside} pixels between the list and the round corner of its row`);
      }
      // Each transcript is on the page once: it moves to where it was opened last.
      const transcripts = (of) => page.getByRole("group", { name: of, exact: true });
      await thread(page, "Part 1").locator("summary").first().click();
      await thread(page, "Part 1").getByText(/^Part 1, chapter 1/).first().waitFor();
      await until(page, async () => (await transcripts("Part 1").count()) === 1, "one transcript, in the row");
      await panel.getByText("Transcript").first().click();
      await panel.getByText(/^Part 1, chapter 1/).first().waitFor();
      await until(page, async () => (await transcripts("Part 1").count()) === 1, "one transcript, beside");
      await page.getByRole("button", { name: "Stop" }).first().click();
    }));

  test("a stop ends the workstreams, also those without a turn, and is one row", () =>
    inSession(async (page, id) => {
      await say(page, "/work 2 60 deadline=1200");
      await thread(page, "Part 1").locator("summary").first().click();
      await thread(page, "Part 1").getByText("look_up", { exact: true }).waitFor();
      await stopButton(page).click();
      for (const name of ["Part 1", "Part 2"]) await thread(page, name).getByText("cancelled").first().waitFor();
      await feed(page).locator(".pl-notice").waitFor();
      await stopButton(page).waitFor({ state: "detached" });
      assert.equal(await feed(page).locator(".pl-notice").count(), 1);
      // An interactive one that waits for a message has no turn.
      await api(server, `/sessions/${id}/workstreams`, { id: "chat", name: "Chat", instruction: "Talk.", interactive: true });
      await until(page, async () => (await events(id)).some((e) => e.type === "turn.completed" && e.workstream_id === "chat"), "the end of its turn");
      await say(page, "/stream 5000 5");
      await settled(page, "tok2");
      await stopButton(page).click();
      await thread(page, "Chat").getByText("cancelled").first().waitFor();
      // A message would not wait for a workstream.
      await stopButton(page).waitFor({ state: "detached" });
      await api(server, `/sessions/${id}/workstreams`, { id: "long", name: "Long", instruction: "/stream 5000 5" });
      const box = page.getByRole("textbox", { name: "Message", exact: true });
      await box.fill("What now?");
      await stopButton(page).waitFor();
      await page.getByRole("button", { name: "Send", exact: true }).waitFor();
      await stopButton(page).click();
      await thread(page, "Long").getByText("cancelled").first().waitFor();
    }));

  test("[18] two workstreams ask at once: both prompts are open, counted and reachable", () =>
    inSession(async (page, id) => {
      await say(page, "/work 2 900 deadline=1200");
      await openPanelWithWork(page);
      await page.getByText("2 running").first().waitFor();
      for (const w of ["w1", "w2"]) await post(id, { type: "agent.input_request", workstream_id: w, payload: { request_id: `ask-${w}`, input_type: "text", text: `Question of ${w}?` } });
      await page.getByRole("textbox", { name: "Question of w2?" }).waitFor();
      await page.getByText("Asked by Part 2").first().waitFor();
      await page.getByRole("navigation", { name: "Conversations" }).locator("[aria-current]").getByText("Question of w1? +1").first().waitFor();
      await until(page, async () => /^\(\d+\) /.test(await page.title()), "the count in the title");
      await page.keyboard.press("Alt+q");
      await until(page, () => page.evaluate(() => document.activeElement?.getAttribute("aria-labelledby") === "q-ask-w1"), "focus on the first");
    }));
});

describe("plans", () => {
  const plan = (...tasks) => ({ type: "agent.plan", payload: { tasks: tasks.map(([id, title, status]) => ({ id, title, status })) } });

  test("[25] progress, the changes of each revision, and a link to the entry where a step started", () =>
    inSession(
      async (page, id) => {
        await post(id, plan(["1", "Load margins", "in_progress"], ["2", "Explain the south", "pending"], ["3", "Draft", "pending"]));
        await post(id, ...Array.from({ length: 30 }, (_, i) => ({ type: "agent.text", payload: { text: `Loading, part ${i}\n\nmore` } })));
        await post(id, { type: "user.message", payload: { text: "now the south" } }, plan(["1", "Load margins", "done"], ["2", "Explain the south", "in_progress"], ["4", "Check with legal", "pending"], ["3", "Draft the summary", "pending"]));
        await post(id, ...Array.from({ length: 30 }, (_, i) => ({ type: "agent.text", payload: { text: `Explaining, part ${i}\n\nmore` } })));
        await openPanel(page);
        const panel = page.getByRole("complementary");
        await panel.getByText("1 of 4").first().waitFor();
        await panel.getByRole("button", { name: "How the plan changed" }).click();
        await panel.getByText("Plan revised 1×").first().waitFor();
        await panel.locator(".pl-diff-added").getByText("Check with legal").first().waitFor();
        await panel.locator(".pl-diff-renamed").getByText("Draft the summary").first().waitFor();
        await panel.locator(".pl-diff-status").getByText("Load margins: done").first().waitFor();
        await axe(page, "plan history");
        await panel.getByRole("button", { name: "Load margins" }).click();
        await page.getByText("Loading, part 0", { exact: true }).first().waitFor();
      },
      { session: { agent: "none" } },
    ));

  test("the tasks of a plan are on the page once: in the panel while it is open, else in the row", () =>
    inSession(
      async (page, id) => {
        await post(id, plan(["1", "Load margins", "in_progress"], ["2", "Check with legal", "pending"]));
        const row = feed(page).locator(".pl-tool", { hasText: "0 of 2" });
        await row.locator("summary").click();
        await row.getByText("Check with legal").waitFor();
        await openPanel(page);
        await page.getByRole("complementary").getByText("Check with legal").waitFor();
        await row.getByText("Check with legal").waitFor({ state: "detached" });
        await axe(page, "plan in the panel");
        await page.getByRole("tab", { name: "Files" }).click();
        await row.getByText("Check with legal").waitFor();
      },
      { session: { agent: "none" } },
    ));
});
