// What helps to write a message: commands of the agent, names of people and files, voice input.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { axe, inSession, server, settled, until } from "./suite.mjs";

const box = (page) => page.getByRole("textbox", { name: "Message", exact: true });
const list = (page) => page.locator(".pl-suggestions");
const option = (page, name) => list(page).getByRole("option", { name });

describe("suggestions of the composer", () => {
  test("a slash lists the commands of the agent; typing narrows, arrows choose, Tab and Enter insert, Esc closes", () =>
    inSession(async (page) => {
      await list(page).waitFor({ state: "attached" });
      await box(page).press("/");
      await page.getByRole("listbox", { name: "Commands of the agent" }).waitFor();
      await option(page, "/stream").waitFor();
      await axe(page, "commands");
      await page.keyboard.type("to");
      await until(page, async () => (await list(page).getByRole("option").count()) === 4, "four commands");
      assert.equal(await box(page).getAttribute("aria-activedescendant"), await option(page, "/tool NAME JSON calls a tool that").getAttribute("id"));
      await page.keyboard.press("ArrowUp");
      await until(page, async () => (await list(page).getByRole("option", { selected: true }).textContent()).startsWith("/tour"), "the last one");
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("Tab");
      assert.equal(await box(page).inputValue(), "/tool ");
      assert.equal(await list(page).getByRole("listbox").count(), 0);
      assert.equal(await box(page).getAttribute("aria-activedescendant"), null);
      await box(page).fill("/hel");
      await option(page, "/help").waitFor();
      await page.keyboard.press("Escape");
      await list(page).getByRole("listbox").waitFor({ state: "detached" });
      await page.keyboard.press("Backspace");
      await option(page, "/help").waitFor();
      await page.keyboard.press("Enter");
      assert.equal(await box(page).inputValue(), "/help");
      await page.keyboard.press("Enter");
      await settled(page, "I answer without a model.");
      assert.equal(await list(page).getByRole("listbox").count(), 0);
    }));

  test("an at sign lists people and files, and inserts their name", () =>
    inSession(
      async (page, id) => {
        await fetch(`${server.url}/parley/v1/sessions/${id}/artifacts/out/report.csv`, { method: "PUT", headers: { "Content-Type": "text/csv" }, body: "a,b\n" });
        await page.getByLabel("More about this conversation").waitFor(); // the record is loaded
        await list(page).waitFor({ state: "attached" });
        await box(page).fill("ask ");
        await page.keyboard.type("@");
        await page.getByRole("listbox", { name: "People and files" }).waitFor();
        await axe(page, "mentions");
        await page.keyboard.type("car");
        await option(page, "Carol Person").click();
        assert.equal(await box(page).inputValue(), "ask Carol ");
        await page.keyboard.type("about @rep");
        await option(page, "report.csv File · 4 B").waitFor();
        await page.keyboard.press("Enter");
        assert.equal(await box(page).inputValue(), "ask Carol about out/report.csv ");
      },
      { session: { agent: "none", members: [{ actor: { kind: "user", id: "carol", name: "Carol" }, role: "viewer" }] } },
    ));
});

describe("voice input", () => {
  test("speech is written into the message; without the browser's support there is no button", () =>
    inSession(async (page) => {
      await page.addInitScript(() => {
        delete window.SpeechRecognition;
        window.webkitSpeechRecognition = class {
          start() {
            window.recognition = this;
          }
          stop() {
            this.onend();
          }
        };
      });
      await page.reload();
      await box(page).fill("Hello");
      await page.getByRole("button", { name: "Dictate" }).click();
      await page.getByRole("button", { name: "Dictate", pressed: true }).waitFor();
      await page.evaluate(() => window.recognition.onresult({ resultIndex: 0, results: [Object.assign([{ transcript: "there you" }], { isFinal: true })] }));
      await until(page, async () => (await box(page).inputValue()) === "Hello there you", "the words");
      await page.getByRole("button", { name: "Dictate" }).click();
      await page.getByRole("button", { name: "Dictate", pressed: false }).waitFor();
      await page.addInitScript(() => {
        delete window.webkitSpeechRecognition;
      });
      await page.reload();
      await list(page).waitFor({ state: "attached" });
      assert.equal(await page.getByRole("button", { name: "Dictate" }).count(), 0);
    }));
});
