// A page of another origin.
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";

const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };

/** Serves folders as a host page does, with a strict policy. */
export function host(to, places) {
  const s = createServer((req, res) => {
    const path = new URL(req.url, "http://x").pathname.slice(1) || "index.html";
    const file = places.map((p) => join(p, path)).find((f) => !path.includes("..") && existsSync(f));
    if (!file) return res.writeHead(404).end();
    res.writeHead(200, {
      "Content-Type": types[extname(file)] ?? "application/octet-stream",
      "Content-Security-Policy": `default-src 'none'; script-src 'self' ${to}; style-src 'self'; img-src 'self' ${to} blob:; frame-src ${to}; connect-src ${to} ${to.replace("http", "ws")}; require-trusted-types-for 'script'; trusted-types 'none'`,
    });
    res.end(readFileSync(file, "utf8").replaceAll("http://127.0.0.1:8000", to).replaceAll("SERVER", to));
  });
  s.unref(); // a test that fails must not wait for it
  return new Promise((resolve) => s.listen(0, "127.0.0.1", () => resolve({ url: `http://127.0.0.1:${s.address().port}`, close: () => s.close() })));
}
