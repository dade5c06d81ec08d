// Languages, text direction, motion, contrast, zoom, keyboard and screen readers.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { say } from "./harness.mjs";
import { axe, inSession, openPanelWithWork, post, settled, until } from "./suite.mjs";

const none = { session: { agent: "none" } };
const inLanguage = (page, name) => page.addInitScript((name) => localStorage.setItem("parley.language", name), name);

const everything = [
  { type: "user.message", payload: { text: "Why?" } },
  { type: "agent.plan", payload: { tasks: [{ id: "1", title: "Look", status: "done" }, { id: "2", title: "Tell", status: "in_progress" }] } },
  { type: "agent.thinking", payload: { text: "Hm." } },
  { type: "agent.tool_call", payload: { call_id: "1", tool: "search", params: { q: "x" } } },
  { type: "agent.tool_result", payload: { call_id: "1", result: 1 } },
  { type: "agent.text", payload: { text: "Because.\n\n```go\nx := 1\n```\n\nSee ![a map](https://maps.example/x.png)" } },
  { type: "agent.artifact", payload: { type: "table", title: "Table", data: { columns: ["a"], rows: Array.from({ length: 20 }, (_, i) => [i]) } } },
  { type: "agent.approval_request", payload: { request_id: "ap", calls: [{ call_id: "c", tool: "deploy", params: { env: "prod" }, risk: "high" }], timeout: 300 } },
  { type: "agent.permission_request", payload: { request_id: "pe", scopes: ["files:read"], justification: "to read", timeout: 300 } },
  { type: "agent.input_request", payload: { request_id: "cb", input_type: "checkbox", text: "Which?", options: [{ id: "a", label: "A" }, { id: "b", label: "B" }], min: 1 } },
];

/** Buttons and labels whose text is cut off, and those that are in no catalogue. */
const misfits = (page, marked) =>
  page.evaluate((marked) => {
    const out = [];
    for (const el of document.querySelectorAll("button, summary, label, legend, h2, h3, th, select")) {
      const r = el.getBoundingClientRect();
      if (r.width === 0 || el.closest("[hidden], .pl-hidden")) continue;
      const text = (el.innerText ?? "").trim();
      const style = getComputedStyle(el);
      if (text && style.textOverflow !== "ellipsis" && el.scrollWidth > el.clientWidth + 2 && style.overflow !== "visible") out.push(`cut off: ${text}`);
      // Texts of agents and people are not in a catalogue; all others must be.
      const theirs = /^(Test \d+|e2e-\d+.*|Look|Tell|A|B|a|files:read|search.*|deploy.*|Parley|Table|Which\?|\d+|English|Deutsch|#\d+|go)$/s;
      const own = [...el.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent.trim()).join(" ").trim();
      if (marked && own && !own.includes("⟦") && !theirs.test(own) && !el.closest(".pl-code, .pl-table, .co-session")) out.push(`in no catalogue: ${own}`);
    }
    return out;
  }, marked);

describe("languages", () => {
  for (const [name, dir] of [["pseudo", "ltr"], ["pseudo-rtl", "rtl"]])
    test(`[38] ${name}: every text is in a catalogue, no text is cut off, code stays left to right`, () =>
      inSession(async (page, id) => {
        await inLanguage(page, name);
        await post(id, ...everything);
        await page.reload();
        await page.getByRole("checkbox").last().waitFor();
        assert.equal(await page.evaluate(() => document.documentElement.dir), dir);
        assert.deepEqual(await misfits(page, true), []);
        await page.locator(".pl-list").hover();
        await until(page, async () => {
          await page.mouse.wheel(0, -800);
          return page.locator(".pl-list").evaluate((el) => el.scrollTop === 0);
        }, "the top of the list");
        assert.equal(await page.locator(".pl-code pre").evaluate((el) => getComputedStyle(el).direction), "ltr");
        assert.deepEqual(await misfits(page, true), []);
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
        await axe(page, name);
      }, none));

  test("[38] German, selected in the console, is kept after a reload, and a conversation works in it", () =>
    inSession(async (page) => {
      await page.getByLabel("Language").selectOption("de");
      await page.getByRole("button", { name: "Neues Gespräch" }).waitFor();
      await page.reload();
      const box = page.getByRole("textbox", { name: "Nachricht", exact: true });
      await box.fill("/ask radio timeout=100");
      await box.press("Enter");
      await page.getByText("nötig, um weiterzumachen").first().waitFor();
      await page.getByRole("radio", { name: /SMS/ }).check();
      await page.locator(".pl-prompt-open[data-armed]").waitFor();
      await page.getByRole("button", { name: "Antwort senden" }).click();
      await settled(page, "Du hast geantwortet");
      assert.equal(await page.evaluate(() => document.documentElement.lang), "de");
      await page.getByLabel("Sprache").selectOption("en");
      await page.getByRole("button", { name: "New conversation" }).waitFor();
    }));
});

describe("accessibility", () => {
  test("[38] reduced motion: nothing is animated, and a change is shown as text", () =>
    inSession(async (page, id) => {
      const plan = (status) => ({ type: "agent.plan", payload: { tasks: [{ id: "1", title: "Look", status }] } });
      await post(id, plan("pending"));
      await openPanelWithWork(page);
      await page.getByRole("complementary").getByText("0 of 1").first().waitFor();
      const word = page.locator(".pl-changed-word").first();
      await page.evaluate(() => {
        window.changeShown = false;
        new MutationObserver(() => {
          const w = document.querySelector(".pl-changed-word");
          if (w && getComputedStyle(w).display !== "none") window.changeShown = true;
        }).observe(document.body, { subtree: true, childList: true });
      });
      await post(id, plan("done"));
      await until(page, () => page.evaluate(() => window.changeShown), "the word for a change");
      await word.waitFor({ state: "detached" });
      assert.equal(await page.evaluate(() => document.getAnimations().filter((a) => a.playState === "running").length), 0);
    }, { ...none, context: { reducedMotion: "reduce" } }));

  test("[38] forced colours: borders and the focus ring are visible", () =>
    inSession(async (page) => {
      await say(page, "/ask radio timeout=100");
      await page.getByRole("radio").first().waitFor();
      const edge = await page.locator(".pl-prompt-open").evaluate((el) => getComputedStyle(el).borderInlineStartWidth);
      assert.equal(edge, "4px");
      assert.notEqual(await page.locator(".pl-ring-arc").evaluate((el) => getComputedStyle(el).stroke), "none");
      // What a tint marks otherwise has a line.
      for (const marked of [page.locator(".pl-bubble").first(), page.locator(".co-session[aria-current]"), page.locator(".co-count").first()])
        assert.equal(await marked.evaluate((el) => getComputedStyle(el).outlineStyle), "solid");
      assert.notEqual(await page.getByRole("button", { name: "Send answer" }).evaluate((el) => getComputedStyle(el).borderStyle), "none");
    }, { context: { forcedColors: "active" } }));

  test("[38] zoom 200 %: nothing scrolls sideways, every control is reachable", () =>
    inSession(async (page, id) => {
      await post(id, ...everything);
      await page.getByRole("checkbox").last().waitFor();
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
      assert.deepEqual(await misfits(page, false), []);
      await page.getByRole("textbox", { name: "Message", exact: true }).waitFor();
    }, { ...none, context: { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 } }));

  for (const colorScheme of ["light", "dark"])
    test(`[33] ${colorScheme}, keyboard only: send, expand a tool, open the raw events, go back; the focus is always visible`, () =>
      inSession(async (page) => {
        await say(page, '/tool fetch {"q":1}');
        await settled(page, "fetch gave");
        const seen = () => page.evaluate(() => {
          const el = document.activeElement;
          if (!el || el === document.body) return "nothing";
          const parts = (c) => c.match(/[\d.]+/g).map(Number);
          const light = (c) => parts(c).slice(0, 3).reduce((n, v, i) => n + [0.2126, 0.7152, 0.0722][i] * (v <= 10.31 ? v / 3294.6 : ((v / 255 + 0.055) / 1.055) ** 2.4), 0);
          const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
          const behind = (e) => {
            for (let p = e.parentElement; p; p = p.parentElement) {
              const c = getComputedStyle(p).backgroundColor;
              if (/^rgb\(/.test(c)) return c;
            }
            return "rgb(255, 255, 255)";
          };
          /** The first element that cuts off a part of the ring. */
          const cut = (e, by) => {
            const r = e.getBoundingClientRect();
            for (let p = e.parentElement; p; p = p.parentElement) {
              const c = p.getBoundingClientRect();
              const style = getComputedStyle(p);
              if (style.overflowX !== "visible" && (r.left - by < c.left - 0.5 || r.right + by > c.right + 0.5)) return p;
              if (style.overflowY !== "visible" && r.height < c.height && (r.top - by < c.top - 0.5 || r.bottom + by > c.bottom + 0.5)) return p;
            }
          };
          const ring = (e) => {
            const s = e && getComputedStyle(e);
            const width = Number.parseFloat(s?.outlineWidth ?? "0");
            return s && s.outlineStyle !== "none" && width >= 1 && contrast(s.outlineColor, behind(e)) >= 3 && !cut(e, width + Number.parseFloat(s.outlineOffset));
          };
          return ring(el.closest(".pl-composer:has(textarea:focus)") ?? (el.matches(".pl-bare") ? el.closest(".pl-ringed") : el)) ? "" : `${el.tagName}.${el.className}`;
        });
        const tab = async (what, key = "Tab") => {
          for (let i = 0; i < 60; i++) {
            await page.keyboard.press(key);
            assert.equal(await seen(), "", "the focus cannot be seen");
            if (await page.evaluate((what) => (document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? "").includes(what), what)) return;
          }
          assert.fail(`${what} was not reached`);
        };
        await tab("fetch", "Shift+Tab");
        await page.keyboard.press("Enter");
        await page.locator(".pl-tool-body").waitFor();
        await tab("Plan, work", "Shift+Tab");
        await page.keyboard.press("Enter");
        await page.keyboard.press(".");
        await tab("Inspector");
        await page.keyboard.press("Enter");
        await tab("Close");
        await page.keyboard.press("Enter");
        await page.getByRole("complementary").waitFor({ state: "detached" });
        await tab("Message", "Shift+Tab");
      }, { context: { colorScheme } }));

  test("[35] a countdown is announced at its start, at sixty and twenty seconds, and at its end", () =>
    inSession(async (page, id) => {
      await page.locator("[role=alert]").last().waitFor({ state: "attached" });
      await page.evaluate(() => {
        window.alerts = [];
        const box = [...document.querySelectorAll("[role=alert]")].at(-1);
        new MutationObserver(() => box.textContent && window.alerts.push(box.textContent)).observe(box, { childList: true, characterData: true, subtree: true });
      });
      const announced = (words) => until(page, () => page.evaluate((words) => window.alerts.join(" ").includes(words), words), words);
      const ask = (request_id, timeout) => post(id, { type: "agent.input_request", payload: { request_id, input_type: "text", text: `Question ${request_id}?`, timeout } });
      // A slow page has time to show a question before its next announcement.
      await ask("a", 74);
      await ask("b", 30);
      await ask("c", 18);
      for (const q of ["a", "b", "c"]) await announced(`A question needs your answer: Question ${q}?`);
      for (const mark of ["60 seconds left to answer", "20 seconds left to answer", "The time to answer is over"]) await announced(mark);
      // Each announcement once and no others, up to the first end; announcements of one second are joined.
      const alerts = (await page.evaluate(() => window.alerts.join(" "))).split(/(?=A question|60 s|20 s|The time)/);
      assert.equal(alerts.findIndex((a) => a.startsWith("The time")) + 1, 6, alerts.join(" | "));
    }, none));
});
