// A page in a browser of its own, driven over the DevTools pipe without Playwright. Playwright has the browser report every
// WebSocket message to it: with 1600 messages a second that takes the page's thread about as long as the page itself.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { browserFlags, browserProgram, timeout, until } from "../../web/testing/server.mjs";

const size = { width: 1280, height: 800 };

export async function openPlainPage() {
  const dir = mkdtempSync(join(tmpdir(), "parley-browser-"));
  const browser = spawn(browserProgram(), [...browserFlags, "--remote-debugging-pipe", `--user-data-dir=${dir}`, "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  const ended = new Promise((done) => browser.on("exit", done));
  const call = protocol(browser.stdio[3], browser.stdio[4]);
  const { targetId } = await call("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await call("Target.attachToTarget", { targetId, flatten: true });
  const send = (method, params) => call(method, params, sessionId);
  await send("Emulation.setDeviceMetricsOverride", { ...size, deviceScaleFactor: 1, mobile: false });
  await send("Performance.enable", { timeDomain: "threadTicks" });

  /** Runs a function in the page; its argument and its result are JSON. */
  const evaluate = async (f, arg) => {
    const r = await send("Runtime.evaluate", { expression: `(${f})(${JSON.stringify(arg) ?? ""})`, awaitPromise: true, returnByValue: true });
    if (r.exceptionDetails) throw new Error(r.exceptionDetails.exception?.description ?? r.exceptionDetails.text);
    return r.result.value;
  };
  /** The middle of an element. */
  const middle = async (selector) => {
    const look = (s) => {
      const r = document.querySelector(s)?.getBoundingClientRect();
      return r && r.width > 0 ? { x: r.x + r.width / 2, y: r.y + r.height / 2 } : undefined;
    };
    return until(() => evaluate(look, selector), selector);
  };
  const mouse = (type, at, more = {}) => send("Input.dispatchMouseEvent", { type, ...at, ...more });
  return {
    evaluate,
    goto: (url) => send("Page.navigate", { url }),
    waitFor: middle,
    click: async (selector) => {
      const at = await middle(selector);
      await mouse("mouseMoved", at);
      await mouse("mousePressed", at, { button: "left", clickCount: 1 });
      await mouse("mouseReleased", at, { button: "left", clickCount: 1 });
    },
    hover: async (selector) => {
      const at = await middle(selector);
      await mouse("mouseMoved", at);
      return (deltaY) => mouse("mouseWheel", at, { deltaX: 0, deltaY });
    },
    /** Seconds of processor time that the page's thread has used so far, by kind. */
    used: async () => Object.fromEntries((await send("Performance.getMetrics")).metrics.map((m) => [m.name, m.value])),
    close: async () => {
      call("Browser.close").catch(() => {}); // the browser may end before it answers
      await ended;
      rmSync(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
    },
  };
}

/** Calls of the DevTools protocol: JSON texts that end with a zero byte. */
function protocol(to, from) {
  const waiting = new Map();
  let sent = 0;
  let rest = "";
  from.setEncoding("utf8");
  from.on("data", (text) => {
    const parts = (rest + text).split("\0");
    rest = parts.pop();
    for (const part of parts) {
      const { id, result, error } = JSON.parse(part);
      waiting.get(id)?.(result, error);
      waiting.delete(id);
    }
  });
  return (method, params = {}, sessionId = undefined) =>
    new Promise((resolve, reject) => {
      const id = ++sent;
      const timer = setTimeout(() => reject(new Error(`${method}: no answer within ${timeout} ms`)), timeout);
      waiting.set(id, (result, error) => {
        clearTimeout(timer);
        if (error) reject(new Error(`${method}: ${error.message}`));
        else resolve(result);
      });
      to.write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
}
