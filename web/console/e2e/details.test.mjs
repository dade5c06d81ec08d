// Small things: plan, panel, menus, the count of questions, keys of prompts, names of files, the banner, errors.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { api, openPage, say } from "./harness.mjs";
import { axe, browser, events, feed, inSession, openPanel, openPanelWithWork, post, server, settled, steady, until } from "./suite.mjs";

const plan = (...tasks) => ({ type: "agent.plan", payload: { tasks: tasks.map(([title, status, detail], i) => ({ id: `${i}`, title, status, detail })) } });
const quiet = { session: { agent: "none" } };

describe("plan and panel", () => {
  test("the panel opens on request only, shows what there is, and stays open in the next conversation", () =>
    inSession(async (page, id) => {
      await post(id, plan(["Load margins", "in_progress"]));
      await feed(page).getByText("0 of 1").waitFor();
      assert.equal(await page.getByRole("complementary").count(), 0);
      await openPanel(page);
      await page.getByRole("complementary").getByText("Load margins").waitFor();
      await api(server, "/sessions", { id: `${id}-files`, agent: "none" });
      await page.goto(`${server.url}/s/${id}-files`);
      await page.getByRole("tab", { name: "Files", selected: true }).waitFor();
      await openPanel(page); // the same button closes it
      await page.getByRole("complementary").waitFor({ state: "detached" });
      await page.goto(`${server.url}/s/${id}`);
      await feed(page).getByText("0 of 1").waitFor();
      assert.equal(await page.getByRole("complementary").count(), 0);
    }, quiet));

  test("on a phone Back closes the sheet of a panel, and not the conversation", () =>
    inSession(async (page, id) => {
      await page.getByRole("button", { name: "Files", exact: true }).click();
      const sheet = page.getByRole("complementary", { name: "Files" });
      await sheet.waitFor();
      await page.goBack();
      await sheet.waitFor({ state: "detached" });
      assert.equal(new URL(page.url()).pathname, `/s/${id}`);
      // The button that closes it leaves no entry behind.
      await page.getByRole("button", { name: "Files", exact: true }).click();
      await sheet.getByRole("button", { name: "Close" }).click();
      await sheet.waitFor({ state: "detached" });
      assert.equal(await page.evaluate(() => history.state?.sheet), undefined);
    }, { ...quiet, context: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true } }));

  test("a finished step strikes out its title and not its detail", () =>
    inSession(async (page, id) => {
      await post(id, plan(["Load margins", "done", "214 rows"], ["Explain", "in_progress"]));
      await openPanelWithWork(page);
      const step = page.getByRole("complementary").locator(".pl-task-done");
      await step.getByText("214 rows").waitFor();
      // A line of an ancestor is drawn through inline text, but not through a button.
      const struck = (locator) => locator.evaluate((el) => {
        for (let e = el; e; e = e.parentElement) {
          if (getComputedStyle(e).textDecorationLine.includes("line-through")) return true;
          if (getComputedStyle(e).display !== "inline") return false;
        }
        return false;
      });
      assert.equal(await struck(step.getByText("Load margins")), true);
      assert.equal(await struck(step.getByText("214 rows")), false);
    }, quiet));

  test("the panel does not change its tab while it is used, nor when the work ends", () =>
    inSession(async (page, id) => {
      await post(id, plan(["Load margins", "in_progress"]));
      await openPanelWithWork(page);
      const panel = page.getByRole("complementary");
      await panel.getByText("Load margins").first().hover();
      await say(page, "/work 2 1 deadline=600");
      await feed(page).locator(".pl-thread", { hasText: "Part 1" }).waitFor();
      assert.equal(await page.getByRole("tab", { name: "Plan" }).getAttribute("aria-selected"), "true");
      await until(page, async () => (await events(id)).filter((e) => e.type === "workstream.completed").length === 2, "the end of the work");
      await page.getByRole("tab", { name: "Work" }).click();
      await feed(page).hover();
      await say(page, "/plan 2 1");
      await until(page, async () => (await events(id)).some((e) => e.type === "agent.plan" && e.payload.tasks.length === 2 && e.payload.tasks.every((t) => t.status === "done")), "another plan");
      await settled(page, "All 2 tasks are done.");
      assert.equal(await page.getByRole("tab", { name: "Work" }).getAttribute("aria-selected"), "true");
    }));

  test("the panel changes to the work when it begins, and stays there after its end", () =>
    inSession(async (page) => {
      await say(page, "/plan 2 1");
      await openPanelWithWork(page);
      await page.getByRole("tab", { name: "Plan", selected: true }).waitFor();
      await feed(page).hover();
      await say(page, "/work 2 1 deadline=600");
      await page.getByRole("tab", { name: "Work", selected: true }).waitFor();
      await page.locator(".pl-dot", { hasText: "Idle" }).waitFor();
      assert.equal(await page.getByRole("tab", { name: "Work" }).getAttribute("aria-selected"), "true");
    }));
});

describe("menus and keys", () => {
  test("the menu of a conversation is used with the keyboard; Rename selects the title", () =>
    inSession(async (page) => {
      const menu = page.locator(".co-dots");
      const focused = () => page.evaluate(() => document.activeElement?.textContent?.trim());
      await menu.locator("summary").focus();
      await page.keyboard.press("ArrowDown");
      assert.equal(await focused(), "Rename");
      await page.keyboard.press("ArrowDown");
      assert.equal(await focused(), "Print view");
      await page.keyboard.press("End");
      assert.equal(await focused(), "Erase");
      await page.keyboard.press("ArrowDown");
      assert.equal(await focused(), "Rename");
      await page.keyboard.press("Escape");
      assert.equal(await menu.evaluate((el) => el.open), false);
      assert.equal(await menu.locator("summary").evaluate((el) => el === document.activeElement), true);
      await page.keyboard.press("ArrowUp");
      await page.keyboard.press("Home");
      await page.keyboard.press("Enter");
      await page.getByRole("dialog").waitFor();
      await page.keyboard.type("A better name");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "A better name", exact: true }).waitFor();
      await until(page, () => menu.locator("summary").evaluate((el) => el === document.activeElement), "the focus on the menu");
    }));

  test("after an answer the keyboard is in the composer; after one that was refused it stays in the form", () =>
    inSession(async (page, id) => {
      await post(id, { type: "agent.input_request", payload: { request_id: "q", input_type: "text", text: "Which vendor?" } });
      const field = page.getByRole("textbox", { name: "Which vendor?" });
      const focused = (el, what) => until(page, () => el.evaluate((at) => at === document.activeElement), what);
      await field.fill("Acme");
      await page.locator(".pl-prompt-open[data-armed]").waitFor();
      const answers = "**/prompts/q/answer";
      await page.route(answers, (route) => route.fulfill({ status: 400, contentType: "application/json", body: '{"error":{"code":"invalid","message":"not a vendor","details":{}}}' }));
      await field.press("Control+Enter");
      await page.getByText("not a vendor").waitFor();
      await focused(field, "the focus in the form");
      await page.unroute(answers);
      await field.press("Control+Enter");
      await feed(page).getByText("You answered").waitFor();
      await focused(page.getByRole("textbox", { name: "Message", exact: true }), "the focus in the composer");
    }, { session: { agent: "none" }, expect: /400/ }));

  test("a refused answer does not take the keyboard from somebody who writes a message", () =>
    inSession(async (page, id) => {
      await post(id, { type: "agent.input_request", payload: { request_id: "q", input_type: "text", text: "Which vendor?" } });
      const field = page.getByRole("textbox", { name: "Which vendor?" });
      await field.fill("Acme");
      await page.locator(".pl-prompt-open[data-armed]").waitFor();
      const asked = new Promise((resolve) => void page.route("**/prompts/q/answer", resolve));
      await field.press("Control+Enter");
      const route = await asked;
      const composer = page.getByRole("textbox", { name: "Message", exact: true });
      await composer.click();
      await page.keyboard.type("half a sen");
      await route.fulfill({ status: 400, contentType: "application/json", body: '{"error":{"code":"invalid","message":"not a vendor","details":{}}}' });
      await page.getByText("not a vendor").waitFor();
      await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
      await page.keyboard.type("tence");
      assert.equal(await composer.inputValue(), "half a sentence");
      await api(server, `/sessions/${id}/prompts/q/answer`, { text: "Acme" }); // the next test counts open questions
    }, { session: { agent: "none" }, expect: /400/ }));

  test("the number of questions leads to the inbox, and from there to each conversation", async () => {
    const { page, context } = await openPage(browser);
    const open = (await api(server, "/sessions?limit=1000&status=waiting")).sessions.map((s) => s.session_id);
    assert.deepEqual(open, []);
    for (const id of ["ask-1", "ask-2"]) {
      await api(server, "/sessions", { id, title: id, agent: "none" });
      await post(id, { type: "agent.input_request", payload: { request_id: `q-${id}`, input_type: "text", text: `Question of ${id}?` } });
    }
    await page.goto(server.url);
    const inbox = page.getByRole("link", { name: /Inbox.*2 need you/ });
    const seen = [];
    for (const id of ["ask-1", "ask-2"]) {
      await inbox.click();
      await page.getByRole("button", { name: new RegExp(`Question of ${id}`) }).click();
      await page.locator(".co-ask-chosen", { hasText: `Question of ${id}?` }).getByRole("link", { name: "Open the conversation" }).click();
      await page.waitForURL(/\/s\//);
      seen.push(new URL(page.url()).pathname);
      await page.getByRole("textbox", { name: `Question of ${id}?` }).waitFor();
    }
    assert.deepEqual(seen.sort(), ["/s/ask-1", "/s/ask-2"]);
    for (const id of ["ask-1", "ask-2"]) await api(server, `/sessions/${id}`, undefined, "DELETE");
    await context.close();
  });

  for (const [kind, choose] of [
    ["radio", (page) => page.getByRole("radio").first().check()],
    ["checkbox", (page) => page.getByRole("checkbox").first().check()],
    ["dropdown", async (page) => {
      await page.getByRole("feed").getByRole("combobox").selectOption({ index: 1 });
      await page.getByRole("feed").getByRole("combobox").focus();
    }],
  ])
    test(`Ctrl+Enter sends the answer of a ${kind}`, () =>
      inSession(async (page) => {
        await say(page, `/ask ${kind}`);
        await choose(page);
        await page.locator(".pl-prompt-open[data-armed]").waitFor();
        await page.keyboard.press("Control+Enter");
        await settled(page, "You answered");
        await page.locator(".pl-prompt-answered").waitFor();
      }));
});

describe("files", () => {
  test("the list of files shows the names of the cards and of the messages", () =>
    inSession(async (page) => {
      await page.locator("input[type=file]").setInputFiles([{ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("hello file") }]);
      await page.locator(".pl-composer").getByText("10 B").waitFor();
      await say(page, "/artifact file");
      await settled(page, "Here is the file.");
      const card = await page.locator(".pl-artifact-title").innerText();
      await page.getByRole("button", { name: "Plan, work" }).click();
      await page.getByRole("tab", { name: "Files" }).click();
      const panel = page.getByRole("complementary");
      for (const name of [card, "notes.txt"]) await panel.getByRole("link", { name, exact: true }).waitFor();
      assert.equal(await panel.getByRole("link").count(), 2);
    }));
});

describe("errors", () => {
  test("[19] six seconds without a network are shown", () =>
    inSession(async (page, id, context) => {
      await page.clock.install();
      await page.reload();
      await page.locator(".pl-dot", { hasText: "Idle" }).waitFor();
      await context.setOffline(true);
      for (let i = 0; i < 6; i++) await page.clock.runFor(1000);
      await page.locator(".pl-banner").getByText("Reconnecting").waitFor();
      await axe(page, "without a network");
      await context.setOffline(false);
      await until(page, async () => {
        await page.clock.runFor(1000);
        return (await page.locator(".pl-banner").count()) === 0;
      }, "the connection");
    }, { expect: /ERR_INTERNET_DISCONNECTED|WebSocket|Failed to/ }));

  test("a lost connection moves no text that somebody reads", () =>
    inSession(async (page, id, context) => {
      await post(id, ...Array.from({ length: 12 }, (_, i) => ({ type: "agent.text", payload: { text: `Paragraph ${i}. `.repeat(60) } })));
      await settled(page, "Paragraph 11");
      const list = page.locator(".pl-list");
      await list.hover();
      await page.mouse.wheel(0, -700);
      await steady(page, list);
      const places = () => list.locator("article").evaluateAll((all) => all.map((a) => `${a.dataset.item} ${Math.round(a.getBoundingClientRect().top)}`));
      const before = await places();
      await context.setOffline(true);
      await page.locator(".pl-banner").getByText("Reconnecting").waitFor();
      assert.deepEqual(await places(), before);
      await page.getByText("Offline. This list may be out of date.").waitFor();
      await context.setOffline(false);
      await page.locator(".pl-banner").waitFor({ state: "detached" });
      assert.deepEqual(await places(), before);
    }, { session: { agent: "none" }, expect: /ERR_INTERNET_DISCONNECTED|WebSocket|Failed to/ }));

  test("a conversation that somebody else erases leaves the page", () =>
    inSession(async (page, id) => {
      await post(id, { type: "agent.text", payload: { text: "Nobody shall read this." } });
      await settled(page, "Nobody shall read this.");
      await post(id, { type: "agent.input_request", payload: { request_id: "q", input_type: "text", text: "Which vendor?" } });
      await page.locator(".co-nav .co-count").getByText("1", { exact: true }).waitFor();
      await api(server, `/sessions/${id}`, undefined, "DELETE");
      await page.getByRole("alert").getByRole("heading", { name: "This conversation was erased." }).waitFor();
      assert.equal(await page.getByText("Nobody shall read this.").count(), 0);
      await page.locator(".co-nav .co-count").waitFor({ state: "detached" });
      assert.equal(await page.getByRole("textbox", { name: "Message", exact: true }).count(), 0);
    }, { session: { agent: "none" }, expect: /410|WebSocket/ }));

  test("a conversation that does not exist offers what to do", async () => {
    for (const options of [{}, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }]) {
      const { page, context } = await openPage(browser, options);
      await page.goto(`${server.url}/s/never-was`);
      await page.getByRole("alert").getByText("does not exist").waitFor();
      const [text, button] = [await page.getByRole("alert").getByRole("heading").boundingBox(), await page.getByRole("alert").getByRole("button").first().boundingBox()];
      assert.ok(text.y > 200 && button.y - text.y - text.height >= 12, "in the middle, with room between text and button");
      await axe(page, "not found");
      // An address without a page is not found either: for people a page, for programs JSON.
      const answer = await page.goto(`${server.url}/inboxx`);
      assert.equal(answer.status(), 404);
      await page.getByRole("heading", { name: "There is no page at this address." }).waitFor();
      await axe(page, "no page");
      assert.equal((await (await fetch(`${server.url}/inboxx`)).json()).error.code, "not_found");
      assert.equal(await page.evaluate(() => document.scrollingElement.scrollHeight > innerHeight), false, "the page does not scroll");
      if (options.isMobile) {
        for (const path of ["/inboxx", "/s/never-was"]) {
          await page.goto(server.url + path);
          const menu = page.locator("main header").getByRole("button", { name: "Conversations" });
          await until(page, async () => ((await menu.boundingBox().catch(() => null))?.y ?? 44) < 44, "the button in the header");
          await menu.click();
          await page.getByRole("navigation", { name: "Conversations" }).waitFor();
          await page.keyboard.press("Escape");
        }
      }
      await page.getByRole("alert").getByRole("button", { name: "New conversation" }).click();
      await page.getByRole("heading", { name: "demo" }).waitFor();
      await context.close();
    }
  });
});
