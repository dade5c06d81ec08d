// Shared by the tests: one server and one browser per file, and a page that must have no errors.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before } from "node:test";
import { api, openPage, timeout, startBrowser, startServer } from "./harness.mjs";

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export let server;
export let browser;
let n = 0;

before(async () => {
  [server, browser] = await Promise.all([startServer("--trace-url", "https://traces.example.com/{id}"), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** A page with a new session; at the end it must have no errors, policy violations or requests to other hosts. */
export async function inSession(body, options = {}) {
  const id = `e2e-${++n}`;
  await api(server, "/sessions", { id, title: `Test ${n}`, ...options.session });
  const { context, page, faults, remote } = await openPage(browser, options.context);
  try {
    await page.goto(`${server.url}/s/${id}`);
    await page.getByRole("textbox", { name: "Message", exact: true }).waitFor();
    await body(page, id, context);
    assert.deepEqual(faults.filter((f) => !options.expect?.test(f)), []);
    assert.deepEqual(await page.evaluate(() => window.violations), []);
    const host = new URL(server.url).host;
    assert.deepEqual(remote.filter((u) => new URL(u).host !== host), []);
  } finally {
    await context.close();
  }
}

export const post = (id, ...drafts) => api(server, `/sessions/${id}/events`, drafts);
export const events = async (id) => (await api(server, `/sessions/${id}/events?limit=1000`)).events;
export const feed = (page) => page.getByRole("feed");
export const settled = (page, text) => feed(page).getByText(text).first().waitFor();

/** The button of the composer that stops the answer; a running workstream has its own. */
export const stopButton = (page) => page.locator(".pl-composer").getByRole("button", { name: "Stop", exact: true });

/** Opens the raw events with the key of the developer mode. */
export async function developer(page) {
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press(".");
  await page.getByRole("tab", { name: "Inspector" }).waitFor();
}

/** Opens the panel, which shows the work, the plan or the files, whichever there is. */
export const openPanel = (page) => page.getByRole("button", { name: "Plan, work, files" }).click();

/** Opens the panel when a plan or work is on the page. The panel that opens before shows the files, and keeps them while the pointer is over it. */
export async function openPanelWithWork(page) {
  await feed(page).locator(".pl-thread-name").first().waitFor();
  await openPanel(page);
}

/** Fails with the serious findings of axe, in light and in dark. */
export async function axe(page, where) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    // End animations; endless ones are checked while they run. A headless browser may draw no frames while nothing else happens, so
    // waiting for their end could take for ever.
    await page.evaluate(() => {
      for (const a of document.getAnimations()) if (a.effect?.getComputedTiming().endTime !== Infinity) a.finish();
    });
    await page.evaluate(axeSource);
    const found = await page.evaluate(async () => {
      const r = await window.axe.run(document, { resultTypes: ["violations"] });
      return r.violations.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) => `${v.id}: ${v.nodes.map((x) => x.target.join(" ")).slice(0, 3).join(", ")}`);
    });
    assert.deepEqual(found, [], `${where}, ${colorScheme}`);
  }
  await page.emulateMedia({ colorScheme: "light" });
}

/** Waits until look returns a value; the page draws a frame between two checks. */
export async function until(page, look, what = "it") {
  const end = Date.now() + timeout;
  for (let v = await look(); ; v = await look()) {
    if (v) return v;
    if (Date.now() > end) assert.fail(`timeout: ${what}`);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
  }
}

/** Waits until the clipboard has a text: a page writes it after the click. */
export const copied = (page, text) =>
  until(page, async () => (await page.evaluate(() => navigator.clipboard.readText())).replaceAll("\r\n", "\n") === text, `the clipboard with ${text.slice(0, 80)}`);

/** Presses a button of a card until it has its effect: a card that was moved ignores clicks for half a second. */
export async function insist(page, button, effect) {
  const end = Date.now() + timeout;
  for (;;) {
    await page.locator(".pl-prompt-open[data-armed]").first().waitFor({ timeout: 2000 }).catch(() => {});
    await button.click({ timeout: 2000 }).catch(() => {});
    if (await effect.first().waitFor({ timeout: 2000 }).then(() => true, () => false)) return;
    if (Date.now() > end) assert.fail("a button had no effect");
  }
}

/** Runs body, which must finish before a prompt expires; when it does not, runs it again with more time. */
export async function inTime(body) {
  for (const seconds of [4, 15, 60]) if (await body(seconds).catch((err) => (/Timeout/.test(err.message) ? false : Promise.reject(err)))) return;
  assert.fail("a minute was not enough");
}

/** Reports whether a countdown is correct that was read between two times. */
export const shows = (left, deadline, from, to) => left <= (deadline - from) / 1000 + 1.5 && left >= (deadline - to) / 1000 - 1.5;

/** Waits until a list has stopped scrolling and measuring: while it scrolls it ignores the pointer, and then it draws a few rows. */
export async function steady(page, list) {
  let last;
  let same = 0;
  await until(page, async () => {
    const [now, moves] = await list.evaluate((el) => [`${el.scrollTop} ${el.scrollHeight}`, el.querySelector('[style*="pointer-events: none"]') !== null]);
    same = now === last && !moves ? same + 1 : 0;
    last = now;
    return same >= 6;
  }, "the list stops scrolling");
}

/** Waits until the list is scrolled to its end. */
export const atEnd = (list) => until(list.page(), () => list.evaluate((el) => el.scrollHeight - el.scrollTop - el.clientHeight < 40), "the end of the list");
