import { english as englishTexts } from "@parley-hq/react";
import type { Locale } from "./locale.js";
import { english } from "./words.js";

/*
 * A pseudo-language: each text is 40 % longer and marked at both ends. It shows truncated texts and texts that are not in a
 * catalogue; a test checks both.
 */

const accents: Record<string, string> = { a: "á", e: "é", i: "í", o: "ó", u: "ú", A: "Á", E: "É", I: "Í", O: "Ó", U: "Ú" };

const stretch = (s: string): string => (s.trim() === "" ? s : `⟦${s.replace(/[aeiouAEIOU]/g, (c) => accents[c] ?? c)}${"~".repeat(Math.ceil(s.length * 0.4))}⟧`);

/** Functions that format numbers and times: they are not changed. */
const forms = new Set(["locale", "number", "count", "compact", "took", "bytes", "moment", "ago", "brand"]);

function stretched<T>(v: T, key = ""): T {
  if (forms.has(key)) return v;
  if (typeof v === "string") return stretch(v) as T;
  if (typeof v === "function") return ((...args: unknown[]) => stretch((v as unknown as (...a: unknown[]) => string)(...args))) as T;
  if (Array.isArray(v)) return v.map((x: unknown) => stretched(x)) as T;
  if (v && typeof v === "object") return Object.fromEntries(Object.entries(v).map(([k, x]) => [k, stretched(x, k)])) as T;
  return v;
}

export const pseudoLocale = (dir: "ltr" | "rtl"): Locale => ({ name: "pseudo", dir, texts: stretched(englishTexts), words: stretched(english) });
