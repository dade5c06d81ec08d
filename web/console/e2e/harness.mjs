// A page of the console in a browser; what all tests share is in web/testing.
import { chromium } from "playwright-core";
import * as testing from "../../testing/server.mjs";

export { api, startServer, timeout } from "../../testing/server.mjs";

export const startBrowser = () => testing.startBrowser(chromium);

/** A page that records errors, policy violations and requests to other hosts. */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: "light", ...options });
  context.setDefaultTimeout(testing.timeout);
  const page = await context.newPage();
  const faults = [];
  page.on("console", (m) => m.type() === "error" && faults.push(`console: ${m.text()}`));
  page.on("pageerror", (e) => faults.push(`error: ${e.message}`));
  await page.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (e) => window.violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`));
  });
  const remote = [];
  page.on("request", (r) => /^(https?|wss?):/.test(r.url()) && remote.push(r.url()));
  // A request that the policy blocks is not sent.
  page.on("requestfailed", (r) => r.failure()?.errorText === "csp" && remote.splice(remote.indexOf(r.url()), 1));
  return { context, page, faults, remote };
}

/** Sends a message with the composer. */
export async function say(page, text) {
  const box = page.getByRole("textbox", { name: "Message", exact: true });
  await box.fill(text);
  await box.press("Enter");
}
