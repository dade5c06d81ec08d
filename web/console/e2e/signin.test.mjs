// A server that requires a sign-in.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "../../testing/server.mjs";
import { openPage, say, startBrowser, startServer } from "./harness.mjs";

describe("signing in", () => {
  let server;
  let browser;
  before(async () => {
    [server, browser] = await Promise.all([startServer("--token", "a-long-enough-secret-token-0123456789"), startBrowser()]);
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  test("a wrong token is refused with a text; a valid one signs in, and scripts cannot read it", async () => {
    const { page, context } = await openPage(browser);
    await page.goto(server.url);
    const token = page.getByLabel("Token");
    await token.fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").getByText("This token is unknown").waitFor();
    assert.equal(await token.evaluate((el) => el === document.activeElement && el.selectionEnd), 5, "the wrong token is selected");
    await token.fill("“quoted”");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").getByText("This is not a token").waitFor();
    // The error does not look like the note above it.
    const colour = (locator) => locator.evaluate((el) => getComputedStyle(el).color);
    assert.notEqual(await colour(page.getByRole("alert")), await colour(page.getByText("requires you to sign in")));
    await token.fill("a-long-enough-secret-token-0123456789");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "demo" }).waitFor();
    await say(page, "hello");
    await page.getByRole("feed").getByText("You said: hello").first().waitFor();
    assert.equal(await page.evaluate(() => document.cookie), "");
    assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes("secret-token")), false);
    await page.reload();
    await page.getByRole("feed").getByText("You said: hello").first().waitFor();
    assert.deepEqual(await page.evaluate(() => window.violations), []);
    await page.locator(".co-account summary").click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Token").waitFor();
    assert.equal(await page.evaluate(() => fetch("/auth/session").then((r) => r.status)), 401);
    await context.close();
  });

  test("a sign-in that ends says so and keeps the draft for the same person, and for nobody else", async () => {
    const dir = mkdtempSync(join(tmpdir(), "parley-tokens-"));
    const file = join(dir, "tokens");
    const token = (name) => `the-long-enough-token-of-${name}-0123456789`;
    const allow = (...names) => writeFileSync(file, names.map((n) => `${token(n)} user,admin ${n}\n`).join(""), { mode: 0o600 });
    allow("ann", "mira");
    const many = await startServer("--token-file", file);
    const { page, context } = await openPage(browser);
    try {
      const box = page.getByRole("textbox", { name: "Message", exact: true });
      const signIn = async (name) => {
        // It is refused until the server has read the file.
        do {
          await page.getByLabel("Token").fill(token(name));
          await page.getByRole("button", { name: "Sign in" }).click();
          await box.or(page.getByRole("alert")).first().waitFor();
        } while (!(await box.isVisible()));
      };
      await page.goto(many.url);
      await signIn("ann");
      await say(page, "hello");
      await page.getByRole("feed").getByText("You said: hello").first().waitFor();
      await box.fill("half a thought");
      await until(() => page.evaluate(() => Object.keys(localStorage).some((k) => k.startsWith("parley.draft."))), "the draft in the browser");
      allow("mira");
      many.reload();
      await page.getByText("Your sign-in has ended.").waitFor();
      allow("ann", "mira");
      many.reload();
      await signIn("ann");
      assert.equal(await box.inputValue(), "half a thought");
      allow("mira");
      many.reload();
      await page.getByText("Your sign-in has ended.").waitFor();
      await signIn("mira");
      assert.equal(await box.inputValue(), "");
    } finally {
      await context.close();
      await many.stop();
      rmSync(dir, { recursive: true, force: true });
    }
  });
});
