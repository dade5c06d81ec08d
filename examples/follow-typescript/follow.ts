// Starts a session with the demo agent, sends a message and prints the answer as it is written.
import { ParleyClient } from "@parley-hq/client";

const client = new ParleyClient({ url: process.env["PARLEY_URL"] ?? "http://127.0.0.1:8000" });
const { session_id } = await client.create({ agent: "demo" });
await client.append(session_id, { type: "user.message", payload: { text: "/echo Hello there" } });
// A lost connection or a restart of the server does not end the loop.
for await (const frame of client.watch(session_id, { after: "0" })) {
  if (frame.type !== "event") continue; // "preview" has pieces of text while it is being written
  if (frame.event.type === "agent.text") console.log(frame.event.payload.text);
  if (frame.event.type === "turn.completed") break;
}
