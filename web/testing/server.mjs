// Shared by all tests that drive the built program: the console's, those of the dialects and those of the example pages.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** The timeout of every wait. It is long, because other programs may run on the machine. */
export const timeout = 120_000;

/** A server on a free port with its own data folder. PARLEY_BIN names a program that is built already. */
export async function startServer(...flags) {
  const dir = mkdtempSync(join(tmpdir(), "parley-test-"));
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
      if (now.process.exitCode !== null || now.process.signalCode !== null) return resolve();
      now.process.on("exit", resolve);
      now.process.kill(signal);
    });
  return {
    url: now.url,
    /** Ends the server; the data stays. */
    kill: () => end("SIGKILL"),
    shutdown: () => end("SIGTERM"),
    /** Lets the server read its files again. */
    reload: () => now.process.kill("SIGHUP"),
    /** Starts it again at the same address. */
    again: async () => {
      now = await run(new URL(now.url).host);
    },
    /** Ends the server, if it runs, and removes its data. */
    stop: async () => {
      await end("SIGTERM");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** A request of the native API. */
export async function api(server, path, body, method = body === undefined ? "GET" : "POST") {
  const res = await fetch(`${server.url}/parley/v1${path}`, {
    method,
    ...(body === undefined ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }),
  });
  const text = await res.text();
  if (!res.ok) throw new Error(`${method} ${path}: ${res.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

/** Waits until look returns something. It is for what another process does; everything else is an event. what says what was expected, as text or by a function. */
export async function until(look, what = look.toString()) {
  const end = Date.now() + timeout;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ${timeout} ms: ${typeof what === "function" ? what() : what}`);
    await new Promise((r) => setTimeout(r, 10));
  }
}

export const browserFlags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** The browser of the machine; CHROMIUM names another one. */
export function browserProgram() {
  const program = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((p) => existsSync(p));
  if (!program) throw new Error("no Chromium: install the package chromium, or name one by CHROMIUM");
  return program;
}

/** Starts the browser; chromium is that of playwright-core. */
export const startBrowser = (chromium) => chromium.launch({ executablePath: browserProgram(), args: browserFlags });

/** A tab of its own with an example page, and the errors that it reported. It reaches only this machine. */
export async function openTab(browser, url) {
  const context = await browser.newContext({ viewport: { width: 900, height: 700 } });
  context.setDefaultTimeout(timeout);
  await context.route("**/*", (route) => (new URL(route.request().url()).hostname === "127.0.0.1" ? route.continue() : route.abort()));
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (e) => faults.push(e.message));
  await page.goto(url);
  return {
    page,
    faults,
    say: async (text) => {
      const box = page.getByRole("textbox").first();
      await box.fill(text);
      await box.press("Enter");
    },
    /** Writes a picture when SCREENSHOTS names a folder. */
    screenshot: async (name) => {
      if (process.env.SCREENSHOTS) await page.screenshot({ path: join(process.env.SCREENSHOTS, `${name}.png`) });
    },
  };
}
