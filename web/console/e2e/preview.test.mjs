// Previews of files: values, audio, PDF.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { axe, inSession, post, server, until } from "./suite.mjs";

const none = { session: { agent: "none" } };
const put = (id, path, type, body) => fetch(`${server.url}/parley/v1/sessions/${id}/artifacts/${path}`, { method: "PUT", headers: { "Content-Type": type }, body });

/** A second of silence. */
function wav() {
  const b = Buffer.alloc(44 + 8000);
  b.write("RIFF", 0);
  b.writeUInt32LE(36 + 8000, 4);
  b.write("WAVEfmt ", 8);
  [[16, 16, 4], [20, 1, 2], [22, 1, 2], [24, 8000, 4], [28, 8000, 4], [32, 1, 2], [34, 8, 2], [40, 8000, 4]].forEach(([at, v, n]) => b.writeUIntLE(v, at, n));
  b.write("data", 36);
  b.fill(128, 44);
  return b;
}

describe("previews", () => {
  test("[27] values are shown as a table and audio in a frame without scripts, only on request", () =>
    inSession(async (page, id) => {
      const rows = Array.from({ length: 300 }, (_, i) => `City ${i},"${i},5"`).join("\r\n");
      await put(id, "out/cities.csv", "text/csv", `City,People\r\n${rows}\r\n`);
      await put(id, "out/voice.wav", "audio/wav", wav());
      await put(id, "out/picture.svg", "image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>");
      const asked = [];
      page.on("request", (r) => asked.push(new URL(r.url()).pathname));
      await post(
        id,
        ...[["Cities", "cities.csv", "text/csv"], ["Voice", "voice.wav", "audio/wav"], ["Drawing", "picture.svg", "image/svg+xml"]].map(([title, name, media_type]) => ({ type: "agent.artifact", payload: { type: "file", title, path: `out/${name}`, media_type, size: 900 } })),
      );
      const card = (name) => page.getByRole("region", { name, exact: true });
      await card("Drawing").waitFor();
      assert.equal(await card("Drawing").getByRole("button", { name: /^Preview/ }).count(), 0);
      assert.deepEqual(asked.filter((a) => /cities|voice/.test(a)), []);
      await card("Cities").getByRole("button", { name: "Preview: Cities" }).click();
      const dialog = page.getByRole("dialog", { name: "Cities" });
      await dialog.getByRole("cell", { name: "199,5" }).waitFor();
      assert.equal(await dialog.getByRole("row").count(), 201);
      await dialog.getByText("Only the first 200 rows are shown.").waitFor();
      await axe(page, "values");
      await page.keyboard.press("Escape");
      await card("Voice").getByRole("button", { name: "Preview: Voice" }).click();
      const frame = page.frameLocator("iframe[title=Voice]");
      await until(page, () => frame.locator("video, audio").first().evaluate((el) => el.duration > 0.9).catch(() => false), "a player");
      assert.equal(await page.locator("iframe[title=Voice]").getAttribute("sandbox"), "allow-same-origin");
      await axe(page, "a player");
      await page.getByRole("dialog", { name: "Voice" }).getByRole("button", { name: "Close" }).click();
      await until(page, () => page.locator("iframe[title=Voice]").count().then((n) => n === 0), "the end of the player");
    }, none));
});
