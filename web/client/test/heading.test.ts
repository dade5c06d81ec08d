import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { headingOf } from "../src/index.js";

const cases = JSON.parse(readFileSync(new URL("../../../chat/testdata/headings.json", import.meta.url), "utf8")) as { text: string; heading: string }[];

test("a heading leaves out what may be secret, as on the server", () => {
  for (const c of cases) expect(headingOf(c.text), c.text).toBe(c.heading);
});
