// Several people in one conversation.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { openPage, say, startServer } from "./harness.mjs";
import { axe, browser } from "./suite.mjs";

const tokens = { alice: "alices-token-0123456789", bob: "bobs-token-0123456789" };

describe("authors", () => {
  let server;
  let dir;
  before(async () => {
    dir = mkdtempSync(join(tmpdir(), "parley-tokens-"));
    writeFileSync(join(dir, "tokens"), Object.entries(tokens).map(([who, token]) => `${token} user ${who}\n`).join(""), { mode: 0o600 });
    server = await startServer("--token-file", join(dir, "tokens"));
  });
  after(async () => {
    await server?.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  const as = async (who, path, body, method = "POST") => {
    const res = await fetch(`${server.url}/parley/v1${path}`, { method, headers: { "Content-Type": "application/json", Authorization: `Bearer ${tokens[who]}` }, body: JSON.stringify(body) });
    assert.ok(res.ok, await res.clone().text());
    return res.json();
  };
  const shared = async (id) => {
    await as("alice", "/sessions", { id, title: "Margins", members: [{ actor: { kind: "user", id: "bob" }, role: "owner" }] });
    return id;
  };
  const signIn = async (page, who) => {
    await page.goto(server.url);
    await page.getByLabel("Token").fill(tokens[who]);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "demo" }).waitFor();
  };
  const entry = (at, text) => at.getByRole("feed").locator("article", { has: at.getByText(text, { exact: true }) });

  /** What one person sees of a conversation of two. */
  async function check(at, mine, other) {
    const [own, theirs] = [entry(at, mine), entry(at, other)];
    for (const text of [mine, other]) await at.getByRole("feed").getByText(`You said: ${text}`).waitFor();
    assert.equal(await own.locator(".pl-author").innerText().then((t) => t.split("\n").at(-1)), "You");
    assert.equal(await own.locator(".pl-initials").innerText().then((t) => t.toLowerCase()), mine.includes("alice") ? "a" : "b");
    const name = other.includes("alice") ? "alice" : "bob";
    assert.equal(await theirs.locator(".pl-author").innerText().then((t) => t.split("\n").at(-1)), name);
    // Screen readers hear the same.
    const label = (row) => row.evaluate((el) => el.getRootNode().getElementById(el.getAttribute("aria-labelledby")).textContent);
    assert.match(await label(own), /^You /);
    assert.match(await label(theirs), new RegExp(`^${name} `));
    const edge = (row) => row.locator(".pl-bubble").evaluate((el) => {
      const a = el.getBoundingClientRect();
      const b = el.closest("article").getBoundingClientRect();
      return a.left - b.left < b.right - a.right ? "start" : "end";
    });
    assert.equal(await edge(own), "end");
    assert.equal(await edge(theirs), "start");
    const answer = at.getByRole("feed").locator("article", { hasText: `You said: ${other}` });
    assert.equal(await answer.locator(".pl-author").innerText().then((t) => t.split("\n").at(-1)), "demo");
  }

  test("in the console each message and each answer shows who wrote it; one's own are one's own only", async () => {
    const id = await shared("together");
    const people = {};
    for (const who of ["alice", "bob"]) {
      people[who] = await openPage(browser);
      await signIn(people[who].page, who);
      await people[who].page.goto(`${server.url}/s/${id}`);
    }
    const { alice, bob } = people;
    await say(alice.page, "words of alice");
    await alice.page.getByRole("feed").getByText("You said: words of alice").waitFor();
    await say(bob.page, "words of bob");
    await check(alice.page, "words of alice", "words of bob");
    await check(bob.page, "words of bob", "words of alice");
    await axe(bob.page, "two people");
    await bob.page.reload();
    await check(bob.page, "words of bob", "words of alice");
    for (const { context } of [alice, bob]) await context.close();
  });

  test("every owner changes the settings in the middle of a conversation; others see the change", async () => {
    const id = await shared("settings");
    const [alice, bob] = [await openPage(browser), await openPage(browser)];
    for (const [who, { page }] of [["alice", alice], ["bob", bob]]) {
      await signIn(page, who);
      await page.goto(`${server.url}/s/${id}`);
    }
    const menu = (page) => page.getByLabel("Approvals");
    await say(alice.page, "hello");
    await bob.page.getByRole("feed").getByText("You said: hello").waitFor();
    await menu(bob.page).selectOption("review");
    await alice.page.waitForFunction(() => document.querySelector("select[aria-label=Approvals]")?.value === "review");
    await as("alice", `/sessions/${id}`, { members: [{ actor: { kind: "user", id: "bob" }, role: "answerer" }] }, "PATCH");
    await bob.page.waitForFunction(() => document.querySelector("select[aria-label=Approvals]")?.disabled);
    await menu(alice.page).selectOption("all");
    await bob.page.waitForFunction(() => document.querySelector("select[aria-label=Approvals]")?.value === "all");
    for (const { context } of [alice, bob]) await context.close();
  });

  test("a person who may only read sees what the agent waits for, and is not asked", async () => {
    const id = await shared("reading");
    await as("alice", `/sessions/${id}`, { members: [{ actor: { kind: "user", id: "bob" }, role: "viewer" }] }, "PATCH");
    const { page, context, faults } = await openPage(browser);
    await signIn(page, "bob");
    await page.goto(`${server.url}/s/${id}`);
    await as("alice", `/sessions/${id}/events`, { type: "user.message", payload: { text: "/ask radio" } });
    const answers = page.getByRole("radio");
    await answers.first().waitFor();
    await page.locator(".pl-dot").getByText("Waits for an answer").waitFor();
    await page.getByText("You can read this conversation.").waitFor();
    assert.equal(await answers.first().isDisabled(), true);
    assert.equal(await page.getByRole("textbox", { name: "Message", exact: true }).count(), 0);
    await page.locator(".co-session").getByText("waits for an answer").waitFor();
    assert.equal(await page.getByText(/needs? you/i).count(), 0);
    assert.doesNotMatch(await page.title(), /^\(/);
    await page.getByLabel("More about this conversation").click();
    await page.getByText("Print view").waitFor();
    for (const name of ["Rename", "Archive", "Erase"]) assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, name);
    await axe(page, "a viewer");
    assert.deepEqual(faults.filter((f) => !f.includes("401")), []); // before the sign-in
    await context.close();
  });

  test("one row says that an answer was stopped, and who stopped it", async () => {
    const id = await shared("stopped");
    const { page, context } = await openPage(browser);
    await signIn(page, "alice");
    await page.goto(`${server.url}/s/${id}`);
    await say(page, "/sleep 600");
    await page.locator(".pl-activity").waitFor();
    await as("bob", `/sessions/${id}/stop`, { reason: "it takes too long" });
    await page.locator(".pl-notice", { hasText: "Stopped · bob: it takes too long" }).waitFor();
    assert.equal(await page.locator(".pl-notice").count(), 1);
    await context.close();
  });

  test("one person alone sees no names", async () => {
    await as("alice", "/sessions", { id: "alone" });
    const { page, context } = await openPage(browser);
    await signIn(page, "alice");
    await page.goto(`${server.url}/s/alone`);
    await say(page, "just me");
    await page.getByRole("feed").getByText("You said: just me").waitFor();
    assert.equal(await page.locator(".pl-author").count(), 0);
    await context.close();
  });

  test("in a frame that signs in with a token", async () => {
    const id = await shared("framed");
    await as("alice", `/sessions/${id}/events`, { type: "user.message", payload: { text: "words of alice" } });
    const { page, context } = await openPage(browser);
    await page.route(`${server.url}/host.html`, (route) => route.fulfill({ contentType: "text/html", body: `<!doctype html><title>x</title><script type="module" src="/embed.js"></script><parley-frame style="display:block;height:600px" src="${server.url}" session="${id}"></parley-frame>` }));
    await page.goto(`${server.url}/host.html`);
    await page.locator("parley-frame").evaluate((el, t) => (el.token = t), tokens.bob);
    const frame = page.frameLocator("parley-frame iframe");
    const box = frame.getByRole("textbox", { name: "Message", exact: true });
    await box.fill("words of bob");
    await box.press("Enter");
    await check(frame, "words of bob", "words of alice");
    await context.close();
  });
});
