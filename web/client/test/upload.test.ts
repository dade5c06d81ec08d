import { afterEach, expect, test, vi } from "vitest";
import { ParleyClient } from "../src/index.js";

/** The part of XMLHttpRequest that is used. */
class FakeXHR {
  static last: FakeXHR | undefined;
  upload: { onprogress?: (ev: { loaded: number }) => void } = {};
  onloadend = () => {};
  status = 0;
  responseText = "";
  headers: Record<string, string> = {};
  method = "";
  url = "";
  body: Blob | undefined;
  constructor() {
    FakeXHR.last = this;
  }
  open(method: string, url: string): void {
    Object.assign(this, { method, url });
  }
  setRequestHeader(k: string, v: string): void {
    this.headers[k] = v;
  }
  send(body: Blob): void {
    this.body = body;
  }
  abort(): void {
    this.onloadend();
  }
  answer(status: number, text: string): void {
    Object.assign(this, { status, responseText: text });
    this.onloadend();
  }
}

afterEach(() => void vi.unstubAllGlobals());

async function begin(signal?: AbortSignal) {
  vi.stubGlobal("XMLHttpRequest", FakeXHR);
  FakeXHR.last = undefined;
  const client = new ParleyClient({ url: "http://fake", token: "t", WebSocket: null });
  const reported: number[][] = [];
  const done = client.upload("s", "a b/c.txt", "hello", { mediaType: "text/plain", onProgress: (...n) => reported.push(n), ...(signal ? { signal } : {}) });
  done.catch(() => {});
  const x = await vi.waitUntil(() => FakeXHR.last?.body && FakeXHR.last);
  return { x, done, reported };
}

test("a browser reports the progress of an upload", async () => {
  const { x, done, reported } = await begin();
  expect(x).toMatchObject({ method: "PUT", url: "http://fake/parley/v1/sessions/s/artifacts/a%20b/c.txt" });
  expect(x.headers).toEqual({ "Content-Type": "text/plain", Authorization: "Bearer t" });
  x.upload.onprogress?.({ loaded: 3 });
  expect(reported).toEqual([[3, 5]]);
  x.answer(201, '{"path":"a b/c.txt","size":5}');
  expect(await done).toMatchObject({ size: 5 });
});

test("an upload that is refused, interrupted or cancelled rejects", async () => {
  const refused = await begin();
  refused.x.answer(413, '{"error":{"code":"too_large","message":"a file has at most 3 bytes here"}}');
  await expect(refused.done).rejects.toMatchObject({ code: "too_large", message: "a file has at most 3 bytes here" });
  const proxy = await begin();
  proxy.x.answer(502, "<html>");
  await expect(proxy.done).rejects.toMatchObject({ code: "unavailable", retryable: true });
  const cut = await begin();
  cut.x.answer(0, "");
  await expect(cut.done).rejects.toMatchObject({ code: "unavailable" });
  const stop = new AbortController();
  const cancelled = await begin(stop.signal);
  stop.abort(new Error("never mind"));
  await expect(cancelled.done).rejects.toThrow("never mind");
});
