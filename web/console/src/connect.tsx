import { useState } from "react";
import { useLanguage } from "./locale.js";

/** A worker in Python without a package of Parley: the frames are those of docs/workers.md. */
export const pythonWorker = (url: string): string => `# agent.py: pip install websockets, then python3 agent.py
import asyncio, json, os
import websockets

async def answer(text):
    return f"You said: {text}"  # your agent

async def main():
    token = os.environ.get("PARLEY_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async for ws in websockets.connect("${url.replace(/^http/, "ws")}/parley/v1/agents/mine/work", additional_headers=headers):
        try:
            await ws.send(json.dumps({"op": "ready", "id": 0, "slots": 1}))
            async for frame in ws:
                frame = json.loads(frame)
                if frame["op"] == "error":
                    print(frame["error"]["message"])
                if frame["op"] != "turn":
                    continue
                turn = frame["turn"]["turn_id"]
                said = {"text": await answer(frame["turn"]["trigger"]["payload"]["text"])}
                event = {"type": "agent.text", "payload": said, "client_id": f"{turn}/1"}
                await ws.send(json.dumps({"op": "append", "id": 1, "turn_id": turn, "events": [event]}))
                await ws.send(json.dumps({"op": "done", "id": 2, "turn_id": turn}))
        except websockets.ConnectionClosed:
            print("The connection is lost; it is made again.")

asyncio.run(main())
`;

const modelAgent = `# parley.yaml, in the folder of the server: parley serve
agents:
  - name: mine
    kind: model
    endpoint: http://127.0.0.1:11434/v1   # Ollama, vLLM, OpenAI, …
    model: qwen3
    # key_env: OPENAI_API_KEY
`;

const httpAgent = `# parley.yaml, in the folder of the server: parley serve
agents:
  - name: mine
    kind: ndjson                          # or openai-chat, ag-ui, nemo
    url: http://127.0.0.1:9000/answer
`;

const httpTest = (url: string): string => `curl -s ${url}/parley/v1/sessions -H 'Content-Type: application/json' -d '{"id":"first","agent":"mine"}'
curl -s ${url}/parley/v1/sessions/first/events -H 'Content-Type: application/json' -d '{"type":"user.message","payload":{"text":"hello"}}'
`;

/** Ways to connect an agent, each with something to copy and run. They have the address of this server. */
export function Connect() {
  const { words } = useLanguage();
  const url = location.origin;
  const ways = [
    [words.connectWays.model, modelAgent],
    [words.connectWays.http, httpAgent],
    [words.connectWays.worker, pythonWorker(url)],
    [words.connectWays.test, httpTest(url)],
  ] as const;
  return (
    <dl>
      {ways.map(([[what, how], code]) => (
        <div key={what}>
          <dt>{what}</dt>
          <dd>{how}</dd>
          <dd>
            <Snippet code={code} label={what} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Snippet({ code, label }: { code: string; label: string }) {
  const { texts } = useLanguage();
  const [copied, setCopied] = useState(false);
  const copy = () => {
    // Without a secure connection browsers have no clipboard; the text can be selected.
    void navigator.clipboard?.writeText(code).then(() => setCopied(true), () => {});
  };
  return (
    <div className="co-snippet">
      <button type="button" className="pl-mini" aria-label={`${copied ? texts.copied : texts.copy}: ${label}`} onClick={copy} onBlur={() => setCopied(false)}>
        {copied ? texts.copied : texts.copy}
      </button>
      <span className="pl-hidden" role="status">
        {copied ? texts.copied : ""}
      </span>
      <pre dir="ltr" tabIndex={0}>
        {code}
      </pre>
    </div>
  );
}
