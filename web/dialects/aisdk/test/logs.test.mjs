// Random logs, as chunks that the Go encoder wrote, through the schemas and chat classes of all versions.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { asSchema } from "@ai-sdk/provider-utils";
import { root } from "../../../testing/server.mjs";
import { newChat, versions } from "../chat.mjs";

const dir = mkdtempSync(join(tmpdir(), "parley-aisdk-"));
let samples;

before(() => {
  const file = join(dir, "chunks.jsonl");
  const run = spawnSync("go", ["test", "-count=1", "-run", "^TestAnyLogGivesTheSameChunksToEveryReader$", "./internal/dialect/aisdk"], {
    cwd: root, env: { ...process.env, AISDK_CHUNKS: file }, encoding: "utf8",
  });
  assert.equal(run.status, 0, run.stdout + run.stderr);
  samples = readFileSync(file, "utf8").trim().split("\n").map((line) => JSON.parse(line));
  assert.ok(samples.length >= 150);
});
after(() => rmSync(dir, { recursive: true, force: true }));

/** A transport that hands out lists of chunks. */
function canned(responses) {
  const next = () => ReadableStream.from(responses.shift());
  return { sendMessages: async () => next(), reconnectToStream: async () => next(), resumeStreamIsReplay: true };
}

const plain = (m) => m.parts.map((p) => {
  const { providerExecuted, approval, ...rest } = JSON.parse(JSON.stringify(p));
  return rest;
});

/** The parts that the list has at the same place: it has a text where the text is finished. */
const stored = (m) => plain(m).filter((p) => !["text", "reasoning", "step-start"].includes(p.type));

for (const version of [5, 6, 7]) {
  test(`version ${version}: no chunk, message or list is refused`, async () => {
    const schema = asSchema(versions[version].uiMessageChunkSchema);
    for (const [i, s] of samples.entries()) {
      if ((version === 5) !== s.legacy) continue;
      const all = [...s.segments.flatMap((g) => g.chunks), ...s.whole];
      for (const chunk of all) {
        const r = await schema.validate(chunk);
        assert.ok(r.success, `${i}: ${JSON.stringify(chunk)} ${r.error}`);
      }
      const failed = all.some((c) => c.type === "error");

      // A page that was there: each segment is the response to a message or to an answer.
      const live = newChat(version, { id: "c", transport: canned(s.segments.map((g) => g.chunks)) });
      let message;
      for (const g of s.segments) {
        const more = g.message === message && live.messages.at(-1).role === "assistant";
        message = g.message;
        await live.sendMessage(more ? undefined : { text: "x" });
        if (g.chunks.some((c) => c.type === "error")) break;
        assert.deepEqual(live.errors, [], `${i}: ${live.errors[0]?.stack}`);
      }

      // A page that comes at the end.
      const late = newChat(version, { id: "c", transport: canned([s.whole]) });
      await late.resumeStream();
      if (!failed) {
        assert.deepEqual(late.errors, [], `${i}: ${late.errors[0]?.stack}`);
        assert.deepEqual(plain(late.messages.at(-1)), plain(live.messages.at(-1)), `${i}`);
        const listed = s.list.find((m) => m.id === late.messages.at(-1).id);
        if (listed) assert.deepEqual(stored(listed), stored(late.messages.at(-1)), `${i}: the list`);
      }
      if (s.list.length > 0) await versions[version].validateUIMessages({ messages: s.list });
    }
  });
}
