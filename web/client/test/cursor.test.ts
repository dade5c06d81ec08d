import { expect, test } from "vitest";
import { formatCursor, parseCursor } from "../src/cursor.js";
import { afterBytes, byteLength } from "../src/utf8.js";

test("a parsed cursor formats to the same text", () => {
  for (const text of ["0", "42", "42~b7.120", "42~b7.120~b9.4", "274877906943~A_-z.0"]) {
    const c = parseCursor(text);
    expect(c && formatCursor(c)).toBe(text);
  }
});

test("a text that is not a cursor is refused", () => {
  for (const text of ["", "-1", "042", "4 2", "42~", "42~b7", "42~b7.", "42~b.7.1", "42~.1", "x", "42~b7.1x", `1~${"b".repeat(65)}.1`])
    expect(parseCursor(text), text).toBeUndefined();
});

test("bytes are counted as UTF-8", () => {
  const encoder = new TextEncoder();
  for (const s of ["", "abc", "é", "日本語", "👩‍👩‍👧", "a😀b\u0000"]) {
    expect(byteLength(s)).toBe(encoder.encode(s).length);
    let bytes = 0;
    for (const c of s) {
      expect(afterBytes(s, bytes)).toBe(new TextDecoder().decode(encoder.encode(s).slice(bytes)));
      bytes += encoder.encode(c).length;
    }
  }
});
