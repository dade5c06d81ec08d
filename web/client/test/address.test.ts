import { expect, test } from "vitest";
import { ParleyClient } from "../src/index.js";

test("the path of a file cannot leave the session's files", () => {
  const client = new ParleyClient({ url: "http://127.0.0.1:8000" });
  const folder = "/parley/v1/sessions/s/artifacts/";
  for (const path of ["../../../backup", "a/../../../../verify", "./../../export", "..", "%2e%2e/%2e%2e/x"]) {
    expect(new URL(client.artifactURL("s", path)).pathname.startsWith(folder)).toBe(true);
  }
  expect(new URL(client.artifactURL("s", "out/a b.png")).pathname).toBe(`${folder}out/a%20b.png`);
});
