// Every frame of random logs through the schemas and verifiers of both majors: none of them may refuse one.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createReadStream, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { verifyEvents as verify1 } from "@ag-ui/client";
import { EventSchema as schema1 } from "@ag-ui/core/schemas";
import { EventSchemas as schema0, verifyEvents as verify0 } from "ag-ui-client-0";
import { from, lastValueFrom, toArray } from "rxjs";
import { root } from "./harness.mjs";

const dir = mkdtempSync(join(tmpdir(), "parley-agui-frames-"));
after(() => rmSync(dir, { recursive: true, force: true }));

test("any log passes the schemas and verifiers of 1.0 and 0.0.59", async () => {
  const file = process.env.AGUI_FRAMES ?? join(dir, "frames.jsonl");
  if (!process.env.AGUI_FRAMES) {
    const run = spawnSync("go", ["test", "-count=1", "-run", "TestAnyLogGivesValidRuns", "./internal/dialect/agui"], { cwd: root, env: { ...process.env, AGUI_FRAMES: file }, encoding: "utf8" });
    assert.equal(run.status, 0, run.stdout + run.stderr);
  }
  let logs = 0;
  let frames = 0;
  for await (const line of createInterface({ input: createReadStream(file) })) {
    const { seed, v1, tanstack, events } = JSON.parse(line);
    const what = `seed ${seed}, ${v1 ? "1.0" : "0.0.x"}${tanstack ? ", TanStack" : ""}`;
    const [schema, verify] = v1 ? [schema1, verify1] : [schema0, verify0];
    if (!events) continue;
    for (const e of events) {
      const parsed = schema.safeParse(e);
      assert.ok(parsed.success, `${what}: ${JSON.stringify(e)}: ${parsed.success || JSON.stringify(parsed.error.issues)}`);
    }
    try {
      await lastValueFrom(from(events).pipe(verify(false), toArray()), { defaultValue: [] });
      if (!v1) await lastValueFrom(from(events).pipe(verify1(false), toArray()), { defaultValue: [] });
    } catch (e) {
      assert.fail(`${what}: ${e.message}`);
    }
    logs++;
    frames += events.length;
  }
  assert.ok(logs > 300 && frames > 15_000, `${logs} logs, ${frames} frames`);
});
