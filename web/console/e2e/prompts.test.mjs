// Prompts: every type, every state, on several pages, and over lost connections.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { api, openPage, say } from "./harness.mjs";
import { axe, browser, developer, events, feed, inSession, insist, inTime, post, server, settled, shows, stopButton, until } from "./suite.mjs";

const answerOf = async (id, type) => (await events(id)).find((e) => e.type === type)?.payload;
const armed = (page) => page.locator(".pl-prompt-open[data-armed]").first().waitFor(); // a card ignores clicks in its first half second

describe("prompts", () => {
  test("[10] text: required, Ctrl+Enter, then one line", () =>
    inSession(async (page, id) => {
      await say(page, "/ask text");
      const field = page.getByRole("textbox", { name: "What is your name?" });
      await field.waitFor();
      await armed(page);
      await page.getByRole("button", { name: "Send answer" }).click();
      await page.getByText("Write an answer first.").first().waitFor();
      await axe(page, "text prompt");
      await field.fill("Mira");
      await field.press("Control+Enter");
      await settled(page, "You answered");
      assert.deepEqual(await answerOf(id, "user.input_response").then((p) => p.text), "Mira");
    }));

  test("[11] [33] yes or no, with the keyboard only", () =>
    inSession(async (page, id) => {
      await say(page, "/ask binary_choice");
      await page.getByRole("button", { name: "Continue" }).waitFor();
      await armed(page);
      await page.keyboard.press("Alt+q");
      await until(page, () => page.evaluate(() => document.activeElement?.textContent === "Continue"), "focus on the question");
      await page.keyboard.press("Tab");
      await page.keyboard.press("Enter");
      await settled(page, "You answered: cancel");
      assert.deepEqual((await answerOf(id, "user.input_response")).values, ["cancel"]);
    }));

  test("[11] [34] radio: labels, descriptions and arrow keys", () =>
    inSession(async (page, id) => {
      await say(page, "/ask radio");
      await page.getByText("A text to the phone on file").first().waitFor();
      await armed(page);
      await page.getByRole("radio", { name: /Email/ }).focus();
      await page.keyboard.press("Space");
      await page.keyboard.press("ArrowDown");
      await axe(page, "radio prompt");
      await page.keyboard.press("Enter");
      await settled(page, "You answered: sms");
      assert.deepEqual((await answerOf(id, "user.input_response")).values, ["sms"]);
    }));

  test("[12] checkbox: the minimum, and the order of the options", () =>
    inSession(async (page, id) => {
      await say(page, "/ask checkbox");
      await page.getByRole("checkbox").first().waitFor();
      await armed(page);
      await page.getByRole("button", { name: "Send answer" }).click();
      await page.getByText("Choose at least 1.").first().waitFor();
      await page.getByRole("checkbox", { name: /Push/ }).check();
      await page.getByRole("checkbox", { name: /Email/ }).check();
      await page.getByText("2 selected").first().waitFor();
      await page.getByRole("button", { name: "Send answer" }).click();
      await settled(page, "You answered");
      assert.deepEqual((await answerOf(id, "user.input_response")).values, ["email", "push"]);
    }));

  test("[12] dropdown: native when short, a filtered list when long", () =>
    inSession(async (page, id) => {
      await say(page, "/ask dropdown");
      await feed(page).getByRole("combobox").selectOption({ label: "Push" });
      await armed(page);
      await page.getByRole("button", { name: "Send answer" }).click();
      // A prompt without a turn is closed with the turn that runs when it is asked.
      await until(page, async () => (await events(id)).some((e) => e.type === "turn.completed"), "the end of the turn");
      await settled(page, "You answered: push");
      await post(id, { type: "agent.input_request", payload: { request_id: "long", input_type: "dropdown", text: "Which one?", options: Array.from({ length: 200 }, (_, i) => ({ id: `o${i}`, label: `Option ${i}` })) } });
      await page.getByRole("searchbox", { name: "Filter options" }).fill("Option 173");
      await page.getByRole("radio", { name: "Option 173" }).check();
      await armed(page);
      await page.getByRole("button", { name: "Send answer" }).click();
      await page.getByText("You answered: Option 173").or(feed(page).getByText("Option 173")).first().waitFor();
    }));

  test("[13] approval: edited arguments reach the agent; a denial has a reason", () =>
    inSession(async (page, id) => {
      // A click at the moment the card appears has no effect.
      await page.evaluate(() => {
        const watch = new MutationObserver(() => {
          const button = [...document.querySelectorAll("button")].find((b) => b.textContent === "Approve once");
          if (!button) return;
          watch.disconnect();
          button.click();
          window.early = true;
        });
        watch.observe(document.body, { subtree: true, childList: true });
      });
      await say(page, '/approve deploy {"env":"prod","api_key":"s3cret"}');
      await page.getByRole("button", { name: "Approve once" }).waitFor();
      assert.equal(await page.getByText("s3cret", { exact: true }).count(), 0, "a secret is shown unasked");
      await armed(page);
      assert.equal(await page.evaluate(() => window.early), true);
      assert.equal(await answerOf(id, "user.approval_response"), undefined);
      await page.getByRole("button", { name: "Edit arguments" }).click();
      const args = page.getByRole("textbox", { name: "Arguments deploy" });
      await args.fill('{"env": ');
      await insist(page, page.getByRole("button", { name: "Approve once" }), page.getByText(/This is not JSON/));
      await axe(page, "approval");
      await args.fill('{"env":"staging"}');
      await insist(page, page.getByRole("button", { name: "Approve once" }), feed(page).getByText('deploy gave {"env":"staging"}'));
      await say(page, "/approve erase {}");
      await page.getByRole("button", { name: "Deny" }).waitFor();
      await armed(page);
      await page.getByRole("button", { name: "Deny" }).click();
      await page.getByRole("textbox", { name: /Reason/ }).fill("too risky");
      await insist(page, page.getByRole("button", { name: "Deny with this reason" }), feed(page).getByText("Denied: too risky"));
    }));

  test("[13] long arguments leave the question and the buttons in view; what is not JSON is shown at its call, with the caret there", () =>
    inSession(async (page, id) => {
      const rows = Array.from({ length: 200 }, (_, i) => `row ${i}`).join("\n");
      await post(id, { type: "agent.approval_request", payload: { request_id: "long", text: "May it load the rows?", calls: [{ call_id: "one", tool: "load", params: { rows } }, { call_id: "two", tool: "notify", params: { to: "all" } }] } });
      await page.getByRole("button", { name: "Approve once" }).waitFor();
      await until(page, async () => (await page.locator(".pl-waiting").count()) === 0, "no hint to a card that is in view");
      const inside = async (part) => page.evaluate(([part, list]) => {
        const [a, b] = [part.getBoundingClientRect(), list.getBoundingClientRect()];
        return a.top >= b.top && a.bottom <= b.bottom;
      }, [await part.elementHandle(), await page.locator(".pl-list").elementHandle()]);
      for (const part of [page.getByText("May it load the rows?").last(), page.getByRole("button", { name: "Approve once" })]) assert.ok(await inside(part));
      await page.getByRole("button", { name: /^Show all/ }).click();
      await page.getByText("row 199").waitFor();
      assert.equal(await page.getByRole("button", { name: /^Show all/ }).count(), 0);
      // The keyboard is in the field that opens; nothing is changed yet, so there is nothing to undo.
      await page.getByRole("button", { name: "Edit arguments" }).last().click();
      const args = page.getByRole("textbox", { name: "Arguments notify" });
      await until(page, () => args.evaluate((el) => el === document.activeElement), "focus in the arguments");
      await page.getByRole("button", { name: "Cancel" }).waitFor();
      await args.fill('{\n  "to": all\n}');
      await page.getByRole("button", { name: "Undo edits" }).waitFor();
      const fault = page.locator(".pl-call", { hasText: "notify" }).getByRole("alert");
      await insist(page, page.getByRole("button", { name: "Approve once" }), fault);
      await until(page, () => args.evaluate((el) => el === document.activeElement && el.getAttribute("aria-invalid") === "true"), "the field that is wrong");
      await args.fill('{"to": "some"}');
      await fault.waitFor({ state: "detached" });
      // The card has moved, because the fault has gone: it ignores keys for half a second.
      await until(page, async () => {
        if ((await answerOf(id, "user.approval_response")) !== undefined) return true;
        await args.press("Control+Enter", { timeout: 1000 }).catch(() => {});
        return false;
      }, "the approval");
      assert.deepEqual((await answerOf(id, "user.approval_response")).decisions.map((d) => d.params), [undefined, { to: "some" }]);
    }, { session: { agent: "none" } }));

  test("[14] permission: each scope separately, the shortest duration by default", () =>
    inSession(async (page, id) => {
      await say(page, "/permission files:read mail:send");
      await page.getByRole("checkbox", { name: "mail:send" }).uncheck();
      assert.ok(await page.getByRole("radio", { name: "Once" }).isChecked());
      await axe(page, "permission");
      await insist(page, page.getByRole("button", { name: "Grant" }), feed(page).getByText("Granted: files:read"));
      const a = await answerOf(id, "user.permission_response");
      assert.deepEqual([a.granted, a.denied, a.duration], [["files:read"], ["mail:send"], "once"]);
    }));

  test("consent: the address is shown in full", () =>
    inSession(async (page) => {
      await say(page, "/ask oauth_consent");
      await page.getByText("https://example.com/oauth/authorize?client_id=demo").first().waitFor();
      await armed(page);
      await page.getByRole("button", { name: "I have given consent" }).click();
      await settled(page, "You answered");
    }));

  test("[15] the countdown is the server's, also with a wrong clock and after a reload", () =>
    inSession(async (page, id) => {
      await page.addInitScript(() => {
        const real = Date.now.bind(Date);
        Date.now = () => real() + 300_000;
      });
      await page.reload();
      await say(page, "/ask text timeout=280");
      const left = async () => {
        const [m, s] = (await page.locator(".pl-ring-text").innerText()).split(":").map(Number);
        return m * 60 + s;
      };
      await page.locator(".pl-ring-text").waitFor();
      const deadline = Date.parse((await events(id)).find((e) => e.type === "agent.input_request").payload.deadline);
      // Server and tests have the same clock; the clock of the page is five minutes ahead.
      const right = async () => {
        const from = Date.now();
        return shows(await left(), deadline, from, Date.now());
      };
      await until(page, right, "the right time");
      await page.reload();
      await page.locator(".pl-ring-text").waitFor();
      await until(page, right, "the right time after a reload");
    }));

  test("[16] an expired prompt stays, is marked, and keeps the draft", () =>
    inSession(async (page) => {
      await inTime(async (seconds) => {
        await say(page, `/ask text timeout=${seconds}`);
        await page.getByRole("textbox", { name: "What is your name?" }).fill("half a thou", { timeout: seconds * 1000 });
        return true;
      });
      await settled(page, "Time ran out · This prompt is no longer available.");
      await settled(page, "half a thou");
      await settled(page, "No answer in time.");
      assert.equal(await page.getByRole("button", { name: "Send answer" }).count(), 0);
    }));

  test("a withdrawn prompt is marked", () =>
    inSession(async (page) => {
      await say(page, "/ask radio");
      await page.getByRole("radio").first().waitFor();
      await stopButton(page).click();
      await settled(page, "No longer needed");
    }));

  test("[17] two pages: the first answer wins, the other page names the answerer", () =>
    inSession(async (page, id, context) => {
      await say(page, "/ask text");
      await page.getByRole("textbox", { name: "What is your name?" }).waitFor();
      const other = await context.newPage();
      await other.goto(page.url());
      await other.getByRole("textbox", { name: "What is your name?" }).fill("late");
      await armed(other);
      // The answer of the other page is delayed until this one is stored.
      let release;
      const held = new Promise((r) => (release = r));
      await other.route("**/answer", async (route) => {
        await held;
        await route.continue();
      });
      await other.getByRole("button", { name: "Send answer" }).click();
      await page.getByRole("textbox", { name: "What is your name?" }).fill("first");
      await page.getByRole("button", { name: "Send answer" }).click();
      await settled(page, "You answered: first");
      await settled(other, "first");
      release();
      await other.getByText(/answered first\. Your answer was not used\./).first().waitFor();
      assert.equal((await events(id)).filter((e) => e.type === "user.input_response").length, 1);
    }, { expect: /409/ }));

  test("[18] open prompts are counted in the list, the title and the strip", () =>
    inSession(async (page, id) => {
      await post(
        id,
        { type: "agent.input_request", payload: { request_id: "q1", input_type: "text", text: "First question?" } },
        ...Array.from({ length: 30 }, (_, i) => ({ type: "agent.text", payload: { text: `Paragraph ${i}\n\nmore` } })),
        { type: "agent.input_request", payload: { request_id: "q2", input_type: "text", text: "Second question?" } },
      );
      await page.getByRole("textbox", { name: "Second question?" }).waitFor();
      await page.getByText("2 questions waiting").first().waitFor();
      await page.getByRole("heading", { name: "Needs you" }).waitFor();
      await until(page, async () => /^\(\d+\) /.test(await page.title()), "the count in the title");
      await page.getByRole("button", { name: "Go", exact: true }).click();
      await page.getByRole("textbox", { name: "First question?" }).waitFor();
      await until(page, () => page.evaluate(() => document.activeElement?.getAttribute("aria-labelledby") === "q-q1"), "focus on the first question");
    }, { session: { agent: "none" } }));
});

describe("the connection", () => {
  test("[19] a short disconnect is not shown, a long one is; nothing is lost or repeated", () =>
    inSession(async (page, id) => {
      await say(page, "before");
      await settled(page, "You said: before");
      // The page itself records its content when it first shows the disconnect: the test could read it too late.
      await page.evaluate(() => {
        const watch = new MutationObserver(() => {
          if (!document.querySelector(".pl-dot-off")) return;
          watch.disconnect();
          window.shouted = document.querySelector(".pl-banner") !== null;
        });
        watch.observe(document.body, { subtree: true, childList: true, attributes: true });
      });
      await server.kill();
      await page.locator(".pl-dot-off").waitFor();
      assert.equal(await page.evaluate(() => window.shouted), false, "a cut that has only begun is shouted about");
      await say(page, "while away");
      await feed(page).getByText("while away", { exact: true }).first().waitFor();
      await page.locator(".pl-banner").getByText(/Reconnecting/).first().waitFor();
      await axe(page, "reconnecting");
      await server.again();
      await page.getByRole("button", { name: "Retry now" }).click({ timeout: 1000 }).catch(() => {});
      await settled(page, "You said: while away");
      await page.locator(".pl-banner").waitFor({ state: "detached" });
      assert.equal((await events(id)).filter((e) => e.type === "user.message").length, 2);
      assert.equal(await feed(page).getByText("while away", { exact: true }).count(), 1);
    }, { expect: /WebSocket|ERR_|Failed to load/ }));
});

describe("around the conversation", () => {
  test("the list is searched, and sessions are reached by their address", () =>
    inSession(async (page, id) => {
      await api(server, "/sessions", { id: "findme", title: "A very particular title" });
      await page.getByRole("searchbox", { name: "Search conversations" }).fill("particular");
      const link = page.getByRole("link", { name: /A very particular title/ });
      await link.click();
      await page.waitForURL(/\/s\/findme$/);
      await page.goBack();
      await page.waitForURL(new RegExp(`/s/${id}$`));
    }));

  test("the search finds words in the whole conversation and scrolls to them", () =>
    inSession(
      async (page, id) => {
        for (let i = 0; i < 3; i++) await post(id, ...Array.from({ length: 150 }, (_, n) => ({ type: "agent.text", payload: { text: i === 0 && n === 5 ? "The needle is here" : `Straw ${i} ${n}` } })));
        await page.reload();
        await page.getByText("Straw 2 149", { exact: true }).first().waitFor();
        await page.getByRole("button", { name: "Search this conversation" }).click();
        await page.getByRole("searchbox", { name: "Search this conversation" }).fill("needle");
        await page.getByRole("search").getByRole("button", { name: /The needle is here/ }).click();
        await feed(page).getByText("The needle is here").first().waitFor();
        await axe(page, "search");
      },
      { session: { agent: "none" } },
    ));

  test("the search is used with the keyboard, shows each call once and no marks of Markdown, and has one button that closes it", () =>
    inSession(
      async (page, id) => {
        await post(id,
          { type: "agent.text", payload: { text: "A **bold needle** is here" } },
          { type: "agent.tool_call", payload: { call_id: "c1", tool: "find_needle", params: { what: "needle" } } },
          { type: "agent.text", payload: { text: "Meanwhile" } },
          { type: "agent.tool_result", payload: { call_id: "c1", tool: "find_needle", result: "one needle" } },
        );
        await page.getByText("Meanwhile").waitFor();
        const opener = page.getByRole("button", { name: "Search this conversation" });
        const focused = (el) => el.evaluate((at) => at === document.activeElement);
        await opener.click();
        const field = page.getByRole("searchbox", { name: "Search this conversation" });
        await field.fill("needle");
        const hits = page.getByRole("search").getByRole("listitem");
        await until(page, async () => (await hits.count()) === 2, "two hits");
        await hits.filter({ hasText: "A bold needle is here" }).waitFor();
        assert.equal(await field.getAttribute("type"), null, "the browser adds a button of its own to a search");
        await field.press("ArrowDown");
        assert.ok(await focused(hits.first().getByRole("button")));
        await page.keyboard.press("ArrowDown");
        assert.ok(await focused(hits.last().getByRole("button")));
        await page.keyboard.press("ArrowDown");
        assert.ok(await focused(field));
        await field.press("Enter");
        await until(page, () => feed(page).locator("article", { hasText: "find_needle" }).locator("summary").evaluate((el) => el === document.activeElement), "the focus on the call");
        await field.focus();
        await page.keyboard.press("Escape");
        await page.getByRole("search").waitFor({ state: "detached" });
        assert.ok(await focused(opener));
      },
      { session: { agent: "none" } },
    ));

  test("a conversation is renamed", () =>
    inSession(async (page) => {
      await page.getByLabel("More about this conversation").click();
      await page.getByRole("button", { name: "Rename" }).click();
      await page.getByRole("textbox", { name: "Title" }).fill("Another name");
      await axe(page, "rename");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Another name" }).waitFor();
    }));

  test("a session that does not exist is reported as text", async () => {
    const { page, context } = await openPage(browser);
    await page.goto(`${server.url}/s/nowhere`);
    await page.getByText("This conversation does not exist, or you may not see it.").first().waitFor();
    await context.close();
  });

  test("[30] the inspector shows raw events, filters them and opens from a link", () =>
    inSession(async (page) => {
      await say(page, '/tool lookup {"q":"x"}');
      await settled(page, "lookup gave");
      await developer(page);
      await page.getByRole("button", { name: /session\.started/ }).waitFor();
      await page.getByRole("searchbox", { name: /Filter events/ }).fill("tool_call");
      await page.getByRole("button", { name: /agent\.tool_call/ }).click();
      await page.getByRole("region", { name: /^Event/ }).getByText('"tool": "lookup"').first().waitFor();
      await axe(page, "inspector");
      // The same event in the form of each dialect.
      for (const [dialect, words] of [["letta", '"message_type": "tool_call_message"'], ["nemo", "system_intermediate_message"], ["vertesia", "lookup"]]) {
        await page.getByRole("tab", { name: dialect, exact: true }).click();
        await page.getByRole("region", { name: new RegExp(`, ${dialect}$`) }).getByText(words).first().waitFor();
      }
      await page.evaluate(() => (location.hash = "#seq=2"));
      await page.getByText("Event 2").first().waitFor();
    }));

  for (const [name, viewport] of [["phone", { width: 390, height: 844 }], ["small phone", { width: 320, height: 640 }]])
    test(`[37] ${name}: one line of header, no sideways scroll, large targets`, () =>
      inSession(
        async (page) => {
          await page.getByRole("textbox", { name: "Message", exact: true }).fill("/ask radio timeout=300");
          await page.getByRole("button", { name: "Send" }).click();
          await page.getByRole("radio").first().waitFor();
          assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), viewport.width);
          assert.equal(await page.locator(".pl-list").evaluate((el) => el.scrollWidth > el.clientWidth), false);
          assert.equal((await page.locator(".pl-header").boundingBox()).height, 44);
          assert.ok((await page.getByRole("button", { name: "Send answer" }).boundingBox()).height >= 44);
          await axe(page, name);
          await page.getByRole("button", { name: "Files", exact: true }).click();
          await page.getByRole("button", { name: "Close" }).click();
          await page.getByRole("button", { name: "Conversations" }).click();
          await page.getByRole("button", { name: "New conversation" }).waitFor();
          await page.keyboard.press("Escape");
        },
        { context: { viewport, hasTouch: true, isMobile: true } },
      ));

  test("[33] a question mark lists the keys, but not in a text field", () =>
    inSession(async (page) => {
      const box = page.getByRole("textbox", { name: "Message", exact: true });
      await box.press("?");
      assert.equal(await page.getByRole("dialog").count(), 0);
      await box.fill("");
      await box.blur();
      await page.keyboard.press("?");
      await page.getByRole("heading", { name: "Keys" }).waitFor();
      await axe(page, "keys");
      await page.keyboard.press("Escape");
      await page.getByRole("heading", { name: "Keys" }).waitFor({ state: "hidden" });
    }));

  test("[35] a screen reader announces starts and ends, not tokens", () =>
    inSession(async (page) => {
      await page.locator("[role=log]").last().waitFor({ state: "attached" });
      await page.evaluate(() => {
        window.announced = [];
        new MutationObserver((list) => list.forEach((m) => m.addedNodes.forEach((x) => window.announced.push(x.textContent)))).observe(document.querySelector("[role=log]"), { childList: true });
      });
      await say(page, "/stream 300 150");
      await page.getByText("tok300", { exact: false }).first().waitFor();
      const announced = () => page.evaluate(() => window.announced);
      await until(page, async () => (await announced()).some((h) => h.includes("tok1 tok2")), "the answer in the log");
      assert.ok((await announced()).length <= 3, JSON.stringify(await announced()));
    }));
});
