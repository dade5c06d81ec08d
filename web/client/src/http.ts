import { pause, type Backoff } from "./backoff.js";
import { errorOf, ParleyError, unreachable } from "./error.js";

/*
 * HTTP requests. Requests that are safe to repeat are retried when the server cannot be reached.
 */

export type Token = string | (() => string | undefined | Promise<string | undefined>) | undefined;
export type Query = Record<string, string | number | boolean | undefined>;

export interface Request {
  method?: string;
  query?: Query;
  /** Sent as JSON. */
  json?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** The request may be repeated when its response was lost. */
  safe?: boolean;
}

export class Http {
  readonly url: string;
  readonly #fetch: typeof fetch;
  readonly #token: Token;
  readonly #backoff: Backoff;
  readonly #retries: number;

  constructor(url: string, token: Token, backoff: Backoff, retries: number, fetcher?: typeof fetch) {
    this.url = url.replace(/\/+$/, "");
    this.#token = token;
    this.#backoff = backoff;
    this.#retries = retries;
    this.#fetch = fetcher ?? ((...args) => globalThis.fetch(...args));
  }

  /** True when the token is a function: a connection whose token has expired is reopened with a new one. */
  get renews(): boolean {
    return typeof this.#token === "function";
  }

  address(path: string, query: Query = {}): string {
    const q = new URLSearchParams();
    for (const [k, v] of Object.entries(query)) if (v !== undefined) q.set(k, String(v));
    const s = q.toString();
    return `${this.url}/parley/v1${path}${s ? `?${s}` : ""}`;
  }

  /** The URL of a WebSocket. Browsers cannot set its headers, so the token is part of the URL. */
  async socketAddress(path: string): Promise<string> {
    return this.address(path, { access_token: await this.token() }).replace(/^http/, "ws");
  }

  async token(): Promise<string | undefined> {
    return (typeof this.#token === "function" ? await this.#token() : this.#token) || undefined;
  }

  async headers(more: Record<string, string> = {}): Promise<Record<string, string>> {
    const token = await this.token();
    return { ...more, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  }

  /** Sends a request and decodes the JSON response. */
  async json<T>(path: string, r: Request = {}): Promise<T> {
    for (let n = 1; ; n++) {
      try {
        const res = await this.send(path, r);
        if (res.status === 204) return undefined as T;
        return (await res.json().catch((err: unknown) => {
          throw r.signal?.aborted ? err : unreachable(this.url, err);
        })) as T;
      } catch (err) {
        if (!(err instanceof ParleyError) || !err.retryable || !r.safe || n > this.#retries) throw err;
        await sleep(Math.max(pause(this.#backoff, n), err.retryAfter), r.signal);
      }
    }
  }

  /** Sends a request once and returns a successful response. */
  async send(path: string, r: Request & { body?: RequestInit["body"] } = {}): Promise<Response> {
    const init: RequestInit = { method: r.method ?? "GET", headers: await this.headers(r.headers), cache: "no-store", body: r.body ?? null };
    if (r.signal) init.signal = r.signal;
    if (r.body instanceof ReadableStream) Object.assign(init, { duplex: "half" });
    if (r.json !== undefined) {
      init.body = JSON.stringify(r.json);
      init.headers = { ...init.headers, "Content-Type": "application/json" };
    }
    let res: Response;
    try {
      res = await this.#fetch(this.address(path, r.query), init);
    } catch (err) {
      throw r.signal?.aborted ? err : unreachable(this.url, err);
    }
    if (res.ok) return res;
    const body: unknown = await res.json().catch(() => undefined);
    throw errorOf(body, res.status, 1000 * Number(res.headers.get("Retry-After") ?? 0) || 0);
  }
}

/** Sleeps; when the signal aborts, it rejects with the signal's reason. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const over = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", over);
      resolve();
    }, ms);
    if (signal?.aborted) over();
    else signal?.addEventListener("abort", over, { once: true });
  });
}
