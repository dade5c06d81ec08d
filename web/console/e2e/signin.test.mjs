// A server that requires a sign-in.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
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
    await page.getByRole("alert").waitFor();
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
});
