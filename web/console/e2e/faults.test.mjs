// Faults of the network: repeated, reordered, late and lost frames; no network; a restarted server.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { api, openPage, say, startServer } from "./harness.mjs";
import { browser, events, feed, inSession, inTime, post, server, settled, shows, until } from "./suite.mjs";

/** The shown entries as text, without times. */
const entries = (page) => feed(page).locator("article").evaluateAll((all) => all.map((a) => a.innerText.replace(/\d\d:\d\d|[\d.]+ m?s\b/g, "").trim()));

/** Another page of the same session, whose socket changes frames. */
async function tampered(id, tamper) {
  const { page, context, faults } = await openPage(browser);
  let clean = false;
  await page.routeWebSocket(/\/parley\/v1\/ws/, (ws) => {
    const to = ws.connectToServer();
    const give = tamper((m) => ws.send(m), () => clean);
    to.onMessage(give);
    ws.onMessage((m) => to.send(m));
  });
  await page.goto(`${server.url}/s/${id}`);
  await page.getByRole("textbox", { name: "Message", exact: true }).waitFor();
  await page.locator(".pl-dot-live, .pl-dot-idle").first().waitFor();
  return {
    page, context, faults,
    /** Ends the faults. A missing frame is noticed when the next one arrives, so one is sent. */
    heal: () => (clean = true),
  };
}

const tampers = {
  "every frame twice": (send) => (m) => {
    send(m);
    send(m);
  },
  "neighbours swapped": (send, clean) => {
    let kept;
    let n = 0;
    return (m) => {
      const op = JSON.parse(m).op;
      if (op !== "event" && op !== "preview") return send(m);
      // Every fifth frame is swapped with the next.
      if (kept === undefined && !clean() && ++n % 5 === 0) {
        kept = m;
        return;
      }
      send(m);
      if (kept !== undefined) send(kept);
      kept = undefined;
    };
  },
  "frames late, in lumps": (send) => {
    let queue = [];
    return (m) => {
      if (queue.push(m) > 1) return;
      setTimeout(() => queue.splice(0).forEach(send), 150);
    };
  },
  "frames lost": (send, clean) => {
    let n = 0;
    return (m) => {
      const op = JSON.parse(m).op;
      if (!clean() && (op === "event" || op === "preview") && ++n % 7 === 0) return;
      send(m);
    };
  },
};

describe("faults of the network", () => {
  for (const [name, tamper] of Object.entries(tampers))
    test(`[20] ${name}: the entries are those of a run without faults`, () =>
      inSession(async (page, id) => {
        const other = await tampered(id, tamper);
        try {
          for (const words of ["/stream 120 200", '/tool look {"q":1}', "/think a b c", "/plan 3 1"]) await say(page, words);
          const over = async () => (await events(id)).filter((e) => e.type === "turn.completed").length === 4;
          await until(page, over, "the end of all four turns");
          other.heal();
          await post(id, { type: "agent.text", payload: { text: "And that is all." } });
          const last = (await events(id)).at(-1).sequence;
          await settled(page, "And that is all.");
          await settled(page, "Done thinking.");
          await until(page, async () => JSON.stringify(await entries(other.page)) === JSON.stringify(await entries(page)), `the same entries up to ${last}`);
          // The streamed entry may be scrolled out of view.
          await feed(other.page).hover();
          await until(page, async () => {
            await other.page.mouse.wheel(0, -400);
            return (await feed(other.page).innerText()).includes("tok60");
          }, "the streamed text");
          assert.equal((await feed(other.page).innerText()).match(/\btok60\b/g)?.length, 1);
        } finally {
          await other.context.close();
        }
      }));

  test("[19] without a network a message waits and is sent once; missed events are loaded", () =>
    inSession(async (page, id, context) => {
      await say(page, "before");
      await settled(page, "You said: before");
      await context.setOffline(true);
      await post(id, { type: "agent.text", payload: { text: "Meanwhile" } });
      await say(page, "while away");
      await feed(page).getByText("while away", { exact: true }).first().waitFor();
      await context.setOffline(false);
      await settled(page, "You said: while away");
      await settled(page, "Meanwhile");
      assert.equal((await events(id)).filter((e) => e.type === "user.message").length, 2);
      assert.equal(await feed(page).getByText("while away", { exact: true }).count(), 1);
      await until(page, async () => (await events(id)).filter((e) => e.type === "turn.completed").length === 2, "the end of both turns");
      // Nothing is missing: the page shows the items that the server folds.
      const items = (await api(server, `/sessions/${id}/snapshot?items=500`)).items.map((i) => i.id);
      await page.reload();
      await settled(page, "You said: while away");
      await until(page, async () => (await feed(page).locator("article").count()) === items.length, `${items.length} entries`);
    }, { expect: /ERR_INTERNET_DISCONNECTED|WebSocket|Failed to/ }));

  test("[19] a first message that cannot be sent stays in the composer; the error is shown until the server answers again", async () => {
    const own = await startServer();
    const { page, context } = await openPage(browser);
    try {
      await page.goto(own.url);
      await page.getByRole("heading", { name: "demo" }).waitFor();
      await own.kill();
      await say(page, "the first thing");
      const error = page.locator(".pl-composer-wrap [role=alert]");
      await error.getByText("cannot reach the server").waitFor();
      assert.equal(await page.getByRole("textbox", { name: "Message", exact: true }).inputValue(), "the first thing");
      const box = page.getByRole("textbox", { name: "Message", exact: true });
      await box.press("End");
      await box.pressSequentially("!");
      assert.equal(await error.count(), 0, "the error of what is typed anew");
      await box.press("Enter");
      await error.getByText("cannot reach the server").waitFor();
      await own.again();
      await error.waitFor({ state: "detached" });
      await box.press("Enter");
      await settled(page, "You said: the first thing!");
      // An edit of a sent message has the same rules.
      const message = feed(page).locator(".pl-own");
      await message.hover();
      await message.getByRole("button", { name: "Edit" }).click();
      const field = page.getByRole("textbox", { name: "Edit" });
      const fault = page.locator(".pl-editor [role=alert]");
      await own.kill();
      await field.press("Enter");
      await fault.getByText("cannot reach the server").waitFor();
      await field.press("End");
      await field.pressSequentially("?");
      assert.equal(await fault.count(), 0, "the error of what is typed anew");
      await field.press("Enter");
      await fault.getByText("cannot reach the server").waitFor();
      await own.again();
      await fault.waitFor({ state: "detached" });
      assert.equal(await field.inputValue(), "the first thing!?");
    } finally {
      await context.close();
      await own.stop();
    }
  });

  test("[16] an answer that arrives too late is refused, and the page says so", () =>
    inSession(async (page, id) => {
      let release;
      const held = new Promise((r) => (release = r));
      let sent = false;
      await page.route("**/answer", async (route) => {
        sent = true;
        await held;
        await route.continue();
      });
      await inTime(async (seconds) => {
        await say(page, `/ask text timeout=${seconds}`);
        const quick = { timeout: seconds * 1000 };
        const expired = async () => (await events(id)).filter((e) => e.type === "prompt.closed").length;
        const before = await expired();
        await page.getByRole("textbox", { name: "What is your name?" }).fill("Mira", quick);
        await page.locator(".pl-prompt-open[data-armed]").waitFor(quick);
        await page.getByRole("button", { name: "Send answer" }).click(quick);
        await until(page, async () => sent || (await expired()) > before, "the answer on its way");
        return sent;
      });
      await settled(page, "No answer in time.");
      release();
      await settled(page, "Your answer came too late and was not used.");
      await settled(page, "This prompt is no longer available.");
      await settled(page, "Mira"); // what was written is still there
      assert.equal((await events(id)).filter((e) => e.type === "user.input_response").length, 0);
    }, { expect: /409|410/ }));

  test("[15] after sleep mode a countdown is correct at once", () =>
    inSession(async (page, id) => {
      await page.clock.install();
      await page.reload();
      await say(page, "/ask text timeout=300");
      const ring = page.locator(".pl-ring-text");
      await ring.waitFor();
      const left = async () => (await ring.innerText()).split(":").reduce((m, s) => m * 60 + Number(s), 0);
      const deadline = Date.parse((await events(id)).find((e) => e.type === "agent.input_request").payload.deadline);
      await page.clock.fastForward(30_000); // as after sleep mode: timers fire once
      await until(page, async () => {
        const from = Date.now();
        return shows(await left(), deadline - 30_000, from, Date.now());
      }, "thirty seconds less");
    }));

  test("[17] two pages show the same entries", () =>
    inSession(async (page, id, context) => {
      const other = await context.newPage();
      await other.goto(page.url());
      await say(page, "/ask binary_choice");
      await other.getByRole("button", { name: "Continue" }).waitFor();
      await page.locator(".pl-prompt-open[data-armed]").waitFor();
      await page.getByRole("button", { name: "Continue" }).click();
      // The agent's text: the card of the answering page has nearly the same text.
      for (const p of [page, other]) await feed(p).locator('[data-item^="b-"]', { hasText: "You answered: continue" }).waitFor();
      await feed(other).getByText("Answered in another window", { exact: false }).first().waitFor();
      const ids = (p) => feed(p).locator("article").evaluateAll((all) => all.map((a) => a.dataset.item));
      await until(page, async () => JSON.stringify(await ids(other)) === JSON.stringify(await ids(page)), "the same entries");
    }));
});
