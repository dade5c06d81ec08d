// An agent outside of the server, in TypeScript. Kill it, or the server, in the middle of an answer and start it again: the
// answer continues where it stopped. Start it twice: both share the turns.
import { ParleyClient } from "@parley-hq/client";
import { work } from "@parley-hq/client/worker";

const client = new ParleyClient({ url: process.env["PARLEY_URL"] ?? "http://127.0.0.1:8000", token: process.env["PARLEY_TOKEN"] ?? "" });

await work(client, "echo", async (turn) => {
  if (turn.text.startsWith("pay ")) {
    const to = turn.text.slice(4);
    const call_id = `pay-${turn.id}`; // the approval and the call are one entry
    const [decision] = await turn.approve({ text: "May I pay?", calls: [{ call_id, tool: "pay", params: { to } }] });
    if (!decision?.approve) return turn.say(`Then not. ${decision?.reason ?? ""}`);
    await turn.call("pay", { to }, async () => `paid ${to}`, { call_id }); // runs once over all attempts
  }
  const answer = turn.stream();
  // The same words in every attempt: what was shown before is skipped.
  for (const word of `You said: ${turn.text}`.split(/(?<= )/)) {
    await answer.write(word);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await answer.close();
});
