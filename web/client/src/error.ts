import type { ErrorCode } from "./types.gen.js";

/** An error of the server, or of the connection to it. The message is safe to show to a person. */
export class ParleyError extends Error {
  readonly code: ErrorCode;
  readonly details: Record<string, unknown>;
  /** The same request may succeed later. */
  readonly retryable: boolean;
  /** Milliseconds to wait before the next request. */
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

/** Decodes an error response; the response of a proxy has only a status. */
export function errorOf(body: unknown, status = 500, retryAfter = 0): ParleyError {
  const e = (body as { error?: { code?: ErrorCode; message?: string; details?: Record<string, unknown> } } | undefined)?.error;
  const code = e?.code ?? codes[status] ?? (status < 500 ? "invalid" : "internal");
  const text = e?.message ?? `the server answered with status ${status}`;
  return new ParleyError(code, text, { retryAfter, ...(e?.details ? { details: e.details } : {}) });
}

/** Converts anything thrown to a ParleyError. */
export function asParleyError(err: unknown): ParleyError {
  if (err instanceof ParleyError) return err;
  return new ParleyError("internal", err instanceof Error ? err.message : String(err), { cause: err });
}

/** The error of close code 4401: the credential has expired, was revoked or signed out. */
export function closedBy(ev: unknown): ParleyError | undefined {
  return (ev as { code?: number } | undefined)?.code === 4401 ? new ParleyError("unauthenticated", "sign in again") : undefined;
}

/** The error of a bye frame; retryable says whether to reconnect. */
export function byeError(f: { error?: unknown; retry?: boolean | undefined }): ParleyError {
  const e = errorOf(f, 503);
  return f.retry === undefined ? e : new ParleyError(e.code, e.message, { details: e.details, retryable: f.retry });
}

export const unreachable = (url: string, cause?: unknown): ParleyError =>
  new ParleyError("unavailable", `cannot reach the server at ${url}`, { cause });
