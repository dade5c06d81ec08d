/// <reference types="node" />
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { titleOf } from "../src/conversation/title.js";

const cases = JSON.parse(readFileSync(new URL("../../../chat/testdata/headings.json", import.meta.url), "utf8")) as { text: string; heading: string }[];

test("a title leaves out what may be secret, as on the server", () => {
  for (const c of cases) expect(titleOf(c.text), c.text).toBe(c.heading);
});
