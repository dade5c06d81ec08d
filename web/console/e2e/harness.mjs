// Starts the built program on a free port, and a browser; both end with the tests.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));

/** The server under test; PARLEY_BIN names a program that is built already. */
export async function startServer(...flags) {
  const dir = mkdtempSync(join(tmpdir(), "parley-e2e-"));
  let bin = process.env.PARLEY_BIN;
  if (!bin) {
    bin = join(dir, "parley");
    const built = spawnSync("go", ["build", "-o", bin, "./cmd/parley"], { cwd: root, stdio: "inherit" });
    if (built.status !== 0) throw new Error("the server does not build");
  }
  const run = (addr) =>
    new Promise((resolve, reject) => {
      const p = spawn(bin, ["serve", "--addr", addr, "--data", join(dir, "data"), "--nats=off", "--min-free=-1", "--min-free-percent=-1", ...flags], { stdio: ["ignore", "pipe", "pipe"] });
      let out = "";
      const look = (b) => {
        out += b;
        const m = /ready at (http:\/\/[\d.:]+)/.exec(out);
        if (m) resolve({ process: p, url: m[1] });
      };
      p.stdout.on("data", look);
      p.stderr.on("data", look);
      p.on("exit", () => reject(new Error(`the server ended: ${out}`)));
    });
  let now = await run("127.0.0.1:0");
  const end = (signal) =>
    new Promise((resolve) => {
      now.process.removeAllListeners("exit");
      now.process.on("exit", resolve);
      now.process.kill(signal);
    });
  return {
    url: now.url,
    /** Ends the server; the data stays. */
    kill: () => end("SIGKILL"),
    /** Starts it again at the same address. */
    again: async () => {
      now = await run(new URL(now.url).host);
    },
    stop: async () => {
      await end("SIGTERM");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export async function startBrowser() {
  const executablePath = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((p) => existsSync(p));
  if (!executablePath) throw new Error("no Chromium: install the package chromium, or name one by CHROMIUM");
  return chromium.launch({
    executablePath,
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/** The timeout of every wait. */
export const timeout = 120_000;

/** A page that records errors, policy violations and requests to other hosts. */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: "light", ...options });
  // Long, because other programs may run on the machine.
  context.setDefaultTimeout(timeout);
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

export async function api(server, path, body, method = body === undefined ? "GET" : "POST") {
  const res = await fetch(`${server.url}/parley/v1${path}`, {
    method,
    ...(body === undefined ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }),
  });
  const text = await res.text();
  return text ? JSON.parse(text) : undefined;
}

/** Sends a message with the composer. */
export async function say(page, text) {
  const box = page.getByRole("textbox", { name: "Message", exact: true });
  await box.fill(text);
  await box.press("Enter");
}
