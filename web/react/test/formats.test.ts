import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { formats } from "../src/i18n/formats.js";

beforeEach(() => {
  vi.stubEnv("TZ", "UTC"); // days are those of the reader's time zone
  vi.useFakeTimers({ now: Date.parse("2026-11-19T12:00:00Z") });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
});

test("how long ago: in words, and a day after a week", () => {
  const { ago, agoShort } = formats("en");
  const before = (seconds: number) => ago(new Date(Date.now() - seconds * 1000).toISOString());
  expect([-5, 59, 60, 150, 3599, 3600, 86_399].map(before)).toEqual(["now", "now", "1 minute ago", "2 minutes ago", "59 minutes ago", "1 hour ago", "23 hours ago"]);
  expect([86_400, 2 * 86_400 - 60, 6 * 86_400].map(before)).toEqual(["yesterday", "2 days ago", "6 days ago"]); // days of the calendar
  expect(before(604_800)).toBe("Nov 12");
  expect([60, 3600, 86_400, 604_800].map((s) => agoShort(new Date(Date.now() - s * 1000).toISOString()))).toEqual(["1m", "1h", "1d", "Nov 12"]);
  expect(formats("de").ago("2026-11-19T11:58:00Z")).toBe("vor 2 Minuten");
});
