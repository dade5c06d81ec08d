// The inbox: all open prompts of all conversations, answered without opening one.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { api, openPage } from "./harness.mjs";
import { axe, browser, events, inSession, insist, post, server, until } from "./suite.mjs";

const rows = (page) => page.getByRole("list", { name: /Questions of your agents/ }).getByRole("listitem");
const chosen = (page) => page.locator(".co-ask-chosen .co-ask-text");
const ask = (id, request, payload) => post(id, { type: "agent.input_request", payload: { request_id: request, input_type: "text", ...payload } });
const approval = (request, tool) => ({ type: "agent.approval_request", payload: { request_id: request, calls: [{ call_id: `c-${request}`, tool, params: { env: "prod" }, risk: "high" }] } });

/** Runs body with new sessions without an agent, which are erased afterwards. */
async function withSessions(titles, body, path = "/inbox") {
  for (const id of titles) await api(server, "/sessions", { id, title: `Talk ${id}`, agent: "none", members: [{ actor: { kind: "user", id: "mira", name: "Mira" }, role: "answerer" }] });
  const { page, context, faults } = await openPage(browser);
  try {
    await body(page, () => page.goto(`${server.url}${path}`));
    assert.deepEqual(faults, []);
  } finally {
    await context.close();
    for (const id of titles) await api(server, `/sessions/${id}`, undefined, "DELETE");
  }
}

describe("inbox", () => {
  test("it shows every open prompt with its agent, conversation, people and time, and is empty otherwise", () =>
    withSessions(["in-1", "in-2"], async (page, go) => {
      await go();
      await page.getByText("Nothing needs you.").waitFor();
      await axe(page, "empty inbox");
      await ask("in-1", "q1", { text: "Which baseline?" });
      await ask("in-2", "q2", { text: "Which region?", timeout: 900 });
      await page.getByRole("button", { name: /Which baseline/ }).waitFor();
      const second = page.getByRole("button", { name: /Which region/ });
      for (const text of [/Talk in-2/, /also asked: Mira/, /1[45]:\d\d left/]) await second.getByText(text).waitFor();
      // The sidebar has the count, and the questions themselves.
      const side = page.getByRole("navigation", { name: "Conversations" });
      await side.getByRole("link", { name: /Inbox.*2 need you/ }).waitFor();
      await side.getByText("Which baseline?").waitFor();
      await until(page, async () => (await page.title()) === "(2) Inbox · Parley", "the title");
      await axe(page, "inbox");
    }));

  test("a prompt is answered in place, and the next one is chosen", () =>
    withSessions(["in-3", "in-4"], async (page, go) => {
      await ask("in-3", "q3", { text: "First question?", timeout: 600 });
      await ask("in-4", "q4", { text: "Second question?", timeout: 900 });
      await go();
      await page.getByRole("textbox", { name: "First question?" }).fill("an answer");
      await insist(page, page.getByRole("button", { name: "Send answer" }), chosen(page).getByText("Second question?"));
      assert.equal((await events("in-3")).find((e) => e.type === "user.input_response").payload.text, "an answer");
      assert.equal(new URL(page.url()).pathname, "/inbox");
      await rows(page).getByText("Answered").waitFor();
      // An answer from elsewhere is shown, and then the row goes.
      await api(server, "/sessions/in-4/prompts/q4/answer", { text: "from the API" });
      await page.getByText("Nothing needs you.").or(page.getByText("from the API")).first().waitFor();
    }));

  test("a request for permission shows its scopes in the inbox and in the list", () =>
    withSessions(["in-scopes"], async (page, go) => {
      await post("in-scopes", { type: "agent.permission_request", payload: { request_id: "p", scopes: ["files:read", "mail:send"] } });
      await go();
      await chosen(page).getByText("The agent asks for permission: files:read, mail:send", { exact: true }).waitFor();
      await page.locator(".co-session", { hasText: "Talk in-scopes" }).getByText("files:read, mail:send").waitFor();
    }));

  test("after the last answer the keyboard is at the text that says so", () =>
    withSessions(["in-last"], async (page, go) => {
      await ask("in-last", "q", { text: "The only question?" });
      await go();
      const field = page.getByRole("textbox", { name: "The only question?" });
      await field.fill("an answer");
      await page.locator(".pl-prompt-open[data-armed]").waitFor();
      await field.press("Control+Enter");
      const end = page.getByRole("heading", { name: "Nothing needs you." });
      await until(page, () => end.evaluate((el) => el === document.activeElement), "the focus on the heading");
    }));

  test("the link of a question opens its conversation at the question, however much follows it", () =>
    withSessions(["in-far"], async (page, go) => {
      await ask("in-far", "far", { text: "Which vendor?" });
      for (let i = 0; i < 4; i++) await post("in-far", ...Array.from({ length: 200 }, (_, n) => ({ type: "agent.text", payload: { text: `Entry ${i * 200 + n}` } })));
      await go();
      await page.getByRole("link", { name: "Open the conversation" }).click();
      const field = page.getByRole("textbox", { name: "Which vendor?" });
      await until(page, () => field.evaluate((el) => el === document.activeElement), "focus on the question");
      const { sequence } = (await events("in-far")).find((e) => e.type === "agent.input_request");
      assert.equal(page.url(), `${server.url}/s/in-far#at=${sequence}`);
      await page.reload();
      await until(page, () => field.evaluate((el) => el === document.activeElement), "focus after a reload");
      await page.getByRole("link", { name: "Talk in-far" }).click();
      assert.equal(page.url(), `${server.url}/s/in-far`);
      // From the end, where the entry of the question is not loaded, the hint leads to it, too.
      await page.reload();
      await page.getByText("Entry 799").last().waitFor();
      await page.locator(".pl-waiting").getByRole("button", { name: "Go" }).click();
      await until(page, () => field.evaluate((el) => el === document.activeElement), "focus after Go");
    }));

  test("j, k, Enter, a, d and o work without a pointer", () =>
    withSessions(["in-5", "in-6", "in-7"], async (page, go) => {
      await ask("in-5", "q5", { text: "Name the release", timeout: 300 });
      await post("in-6", approval("a6", "deploy"));
      await post("in-7", approval("a7", "erase"));
      await go();
      await chosen(page).getByText("Name the release").waitFor();
      await page.keyboard.press("Enter");
      const field = page.getByRole("textbox", { name: "Name the release" });
      await until(page, () => field.evaluate((el) => el === document.activeElement), "focus in the form");
      await field.press("j"); // a letter in a field is text
      assert.equal(await field.inputValue(), "j");
      await page.keyboard.press("Escape");
      await page.keyboard.press("j");
      await chosen(page).getByText("deploy").waitFor();
      await page.keyboard.press("k");
      await chosen(page).getByText("Name the release").waitFor();
      const ring = await page.locator(".co-ask-chosen .co-ask-row").evaluate((el) => {
        const [own, whole] = [el, el.parentElement].map((e) => getComputedStyle(e).outlineStyle);
        return { focused: el === document.activeElement, own, whole };
      });
      assert.deepEqual(ring, { focused: true, own: "none", whole: "solid" }, "the ring is around the row with its form");
      await page.keyboard.press("j");
      await chosen(page).getByText("deploy").waitFor();
      await page.locator(".pl-prompt-open[data-armed]").waitFor();
      await page.keyboard.press("a");
      await until(page, async () => (await events("in-6")).some((e) => e.type === "user.approval_response"), "the approval");
      assert.equal((await events("in-6")).find((e) => e.type === "user.approval_response").payload.decisions[0].approve, true);
      await rows(page).filter({ hasText: "deploy" }).getByText("Approved").waitFor();
      await chosen(page).getByText("erase").waitFor();
      await page.locator(".pl-prompt-open[data-armed]").waitFor();
      await page.keyboard.press("d");
      const reason = page.getByRole("textbox", { name: /Reason/ });
      await reason.fill("too risky");
      await until(page, async () => {
        if (await reason.isVisible()) await reason.press("Enter", { timeout: 2000 }).catch(() => {});
        return (await events("in-7")).some((e) => e.type === "user.approval_response");
      }, "the denial");
      assert.equal((await events("in-7")).find((e) => e.type === "user.approval_response").payload.decisions[0].reason, "too risky");
      await rows(page).filter({ hasText: "erase" }).getByText("Denied").waitFor();
      await chosen(page).getByText("Name the release").waitFor();
      await page.keyboard.press("o");
      await page.waitForURL(/\/s\/in-5#at=\d+$/);
      // A draft of the inbox is in the conversation, too.
      await until(page, async () => (await page.getByRole("textbox", { name: "Name the release" }).inputValue()) === "j", "the draft");
    }));

  test("what a key chooses is in view with its buttons; Enter goes to the answer, and not to a hidden secret", () => {
    const titles = Array.from({ length: 12 }, (_, i) => `in-v${i}`);
    return withSessions(titles, async (page, go) => {
      const params = { api_key: "c1f7e02b94", ...Object.fromEntries(Array.from({ length: 5 }, (_, i) => [`value_${i}`, "some text"])) };
      for (const [i, id] of titles.entries()) await post(id, { type: "agent.approval_request", payload: { request_id: `v${i}`, text: `Run number ${i}?`, calls: [{ call_id: `c-v${i}`, tool: "deploy", params }] } });
      await go();
      await page.locator(".co-ask-chosen .pl-primary").waitFor();
      for (let i = 1; i < 12; i++) {
        await page.keyboard.press("j");
        await chosen(page).getByText(`Run number ${i}?`).waitFor();
        const approve = page.locator(".co-ask-chosen .pl-primary");
        await approve.waitFor();
        await until(page, async () => {
          const [b, list] = await Promise.all([approve.boundingBox(), page.locator(".co-inbox-body").boundingBox()]);
          return b && b.y + b.height <= list.y + list.height && b.y >= list.y;
        }, `the buttons of number ${i} in view`);
      }
      await page.keyboard.press("Enter");
      await until(page, () => page.getByRole("button", { name: "Approve once" }).evaluate((el) => el === document.activeElement), "the focus on the answer");
    });
  });

  test("a key that is held down approves one prompt", () =>
    withSessions(["in-8", "in-9"], async (page, go) => {
      await post("in-8", approval("a8", "deploy"));
      await post("in-9", approval("a9", "erase"));
      await go();
      await page.locator(".pl-prompt-open[data-armed]").waitFor();
      const first = await chosen(page).innerText();
      await page.keyboard.down("a");
      await until(page, async () => (await chosen(page).innerText()) !== first, "the next one");
      await page.locator(".pl-prompt-open[data-armed]").waitFor();
      await page.keyboard.down("a"); // again without a release: the browser reports a repetition
      await page.keyboard.up("a");
      await page.keyboard.press("d"); // keys work as before
      await page.getByRole("textbox", { name: /Reason/ }).waitFor();
      const answers = await Promise.all(["in-8", "in-9"].map(async (id) => (await events(id)).filter((e) => e.type === "user.approval_response").length));
      assert.equal(answers[0] + answers[1], 1);
    }));

  test("a prompt that another person answers stays until one moves on, and is no longer counted", () =>
    withSessions(["in-10", "in-11"], async (page, go) => {
      await post("in-10", approval("a10", "deploy"));
      await go();
      await chosen(page).getByText("deploy").waitFor();
      await post("in-11", approval("a11", "erase"));
      await rows(page).filter({ hasText: "erase" }).waitFor();
      await api(server, "/sessions/in-10/prompts/a10/answer", { decisions: [{ call_id: "c-a10", approve: false }] });
      await rows(page).filter({ hasText: "deploy" }).getByText("No longer open").waitFor();
      await page.locator(".co-sub").getByText("1 needs you").waitFor();
      await chosen(page).getByText("deploy").waitFor();
      assert.equal(await page.locator(".co-hints").getByText("approve").count(), 0, "there is nothing to approve");
      await page.keyboard.press("a");
      await page.keyboard.press("j");
      await chosen(page).getByText("erase").waitFor();
      assert.equal((await events("in-11")).filter((e) => e.type === "user.approval_response").length, 0);
    }));

  test("the number of open prompts leads to the inbox from every conversation", () =>
    inSession(async (page, id) => {
      await ask(id, "q8", { text: "Where to?" });
      await page.getByRole("link", { name: /Inbox.*1 needs you/ }).click();
      await page.getByRole("textbox", { name: "Where to?" }).waitFor();
      assert.equal(new URL(page.url()).pathname, "/inbox");
      await page.goBack();
      await page.waitForURL(new RegExp(`/s/${id}$`));
    }, { session: { agent: "none" } }));
});
