// A worker in Node.js that needs only a WebSocket: it claims the turns of
// an agent name and answers them. Node 22 has WebSocket built in; Node 20 needs
// `node --experimental-websocket`, or the package ws.
//
//   node examples/worker.mjs ws://127.0.0.1:8000 echo
const [url = "ws://127.0.0.1:8000", name = "echo"] = process.argv.slice(2);
const Socket = globalThis.WebSocket ?? (await import("ws")).WebSocket;
const token = process.env.PARLEY_TOKEN ? `?access_token=${encodeURIComponent(process.env.PARLEY_TOKEN)}` : "";
const held = new Set(); // turns that are being answered, over broken connections too

function connect() {
  const ws = new Socket(`${url}/parley/v1/agents/${encodeURIComponent(name)}/work${token}`);
  const send = (frame) => ws.send(JSON.stringify(frame));
  ws.onopen = () => send({ op: "ready", id: 1, slots: 4, turns: [...held] });
  // Some releases of Node.js report a failed connection with `error` only.
  ws.onclose = ws.onerror = ({ code }) => {
    ws.onclose = ws.onerror = null;
    if (code === 4401) throw new Error("the token has expired or was revoked: start the worker with another one");
    setTimeout(connect, 500);
  };
  ws.onmessage = ({ data }) => {
    const frame = JSON.parse(data);
    if (frame.op === "turn") answer(send, frame.turn);
    else if (frame.op === "stop" || frame.op === "ended") held.delete(frame.turn_id);
    else if (frame.op === "ok" && String(frame.id).startsWith("done ")) held.delete(frame.turn_id);
    else if (frame.op === "error") console.error(frame.error.message);
  };
}

function answer(send, { turn_id, trigger, open = [] }) {
  held.add(turn_id);
  const text = `You said: ${trigger.payload.text}`;
  // The same block and client_id in every attempt, so that stored and shown text is not repeated.
  const block = `b-${turn_id}`, bytes = Buffer.from(text);
  let offset = Buffer.byteLength(open.find((b) => b.block === block)?.text ?? "");
  while (offset < bytes.length) {
    let end = Math.min(offset + 8, bytes.length);
    while (end < bytes.length && (bytes[end] & 0xc0) === 0x80) end++; // no character is split
    send({ op: "preview", turn_id, preview: { block, offset, text: bytes.toString("utf8", offset, end) } });
    offset = end;
  }
  send({ op: "append", id: `say ${turn_id}`, turn_id, events: [{ type: "agent.text", payload: { block, text, final: true }, client_id: `${turn_id}/1` }] });
  send({ op: "done", id: `done ${turn_id}`, turn_id });
}

connect();
