import { describe, expect, test } from "vitest";
import { fold } from "../src/fold.js";
import { vectors } from "./vectors.js";

describe("the fold gives what the Go fold gives", () => {
  test("there are vectors", () => expect(vectors.length).toBeGreaterThan(20));
  for (const v of vectors)
    test(v.name, () => {
      const got = fold(v.events);
      expect(got.items).toStrictEqual(v.items);
      expect(got.state).toStrictEqual(v.state);
    });
});
