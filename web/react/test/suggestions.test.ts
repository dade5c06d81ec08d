import { expect, test } from "vitest";
import { commandsFor, mentionsFor, wordAt } from "../src/conversation/suggestions.js";

test("a command is completed at the beginning of the text only, a mention after a space", () => {
  expect(wordAt("/st", 3)).toEqual({ kind: "/", text: "/st", from: 0, to: 3 });
  expect(wordAt("/st now", 3)).toEqual({ kind: "/", text: "/st", from: 0, to: 3 });
  expect(wordAt("/stream 20", 10)).toBeUndefined();
  expect(wordAt("see /st", 7)).toBeUndefined();
  expect(wordAt("ask @ca", 7)).toEqual({ kind: "@", text: "ca", from: 4, to: 7 });
  expect(wordAt("@", 1)).toEqual({ kind: "@", text: "", from: 0, to: 1 });
  expect(wordAt("a@b", 3)).toBeUndefined();
});

test("commands that begin with the word come first; one with input is followed by a space", () => {
  const all = [{ name: "/restart" }, { name: "/start", input: "N", description: "begins" }, { name: "/help" }];
  expect(commandsFor(all, "/st").map((o) => o.insert)).toEqual(["/start ", "/restart"]);
  expect(commandsFor(all, "/").length).toBe(3);
});

test("mentions are found by any part of their name", () => {
  expect(mentionsFor([{ name: "Carol" }, { name: "out/report.csv" }], "REP").map((o) => o.insert)).toEqual(["out/report.csv "]);
});
