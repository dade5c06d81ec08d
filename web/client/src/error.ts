import type { ErrorCode } from "./types.gen.js";

/** What the server refused, or why it could not be reached. The message is safe to show a person. */
export class ParleyError extends Error {
  readonly code: ErrorCode;
  readonly details: Record<string, unknown>;
  /** The same request may succeed later. */
  readonly retryable: boolean;
  /** Milliseconds that the server wants to be left alone. */
  readonly retryAfter: number;

  constructor(code: ErrorCode, message: string, more: { details?: Record<string, unknown>; retryable?: boolean; retryAfter?: number; cause?: unknown } = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = "ParleyError";
    this.code = code;
    this.details = more.details ?? {};
    this.retryable = more.retryable ?? (code === "unavailable" || code === "slow_down");
    this.retryAfter = more.retryAfter ?? 0;
  }
}

const codes: Record<number, ErrorCode> = {
  400: "invalid", 401: "unauthenticated", 403: "denied", 404: "not_found", 409: "conflict", 410: "gone", 413: "too_large", 429: "slow_down",
  502: "unavailable", 503: "unavailable", 504: "unavailable",
};

/** Reads an error as the server sends it; a proxy's own page has only its status. */
export function errorOf(body: unknown, status = 500, retryAfter = 0): ParleyError {
  const e = (body as { error?: { code?: ErrorCode; message?: string; details?: Record<string, unknown> } } | undefined)?.error;
  const code = e?.code ?? codes[status] ?? (status < 500 ? "invalid" : "internal");
  const text = e?.message ?? `the server answered with status ${status}`;
  return new ParleyError(code, text, { retryAfter, ...(e?.details ? { details: e.details } : {}) });
}

/** Anything that was thrown, as a ParleyError. */
export function asParleyError(err: unknown): ParleyError {
  if (err instanceof ParleyError) return err;
  return new ParleyError("internal", err instanceof Error ? err.message : String(err), { cause: err });
}

/** Why a socket was closed, when it says 4401: its credential has expired, was revoked or signed out. */
export function closedBy(ev: unknown): ParleyError | undefined {
  return (ev as { code?: number } | undefined)?.code === 4401 ? new ParleyError("unauthenticated", "sign in again") : undefined;
}

/** The end of a stream or a connection: an error that says whether to come back. */
export function goodbye(f: { error?: unknown; retry?: boolean | undefined }): ParleyError {
  const e = errorOf(f, 503);
  return f.retry === undefined ? e : new ParleyError(e.code, e.message, { details: e.details, retryable: f.retry });
}

export const unreachable = (url: string, cause?: unknown): ParleyError =>
  new ParleyError("unavailable", `cannot reach the server at ${url}`, { cause });
