import { CopilotChat, CopilotKitProvider, useAgent, useInterrupt } from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";
import { useState } from "react";
import { createRoot } from "react-dom/client";

// The thread is in the address, so a reload or another device continues it.
const address = new URL(location.href);
if (!address.searchParams.has("thread")) {
  address.searchParams.set("thread", crypto.randomUUID());
  history.replaceState(null, "", address);
}
const threadId = address.searchParams.get("thread");

/** A question of the agent: approve a call, or choose an answer. */
function Question({ interrupt, resolve, cancel }) {
  const [text, setText] = useState("");
  const about = interrupt.metadata?.parley ?? {};
  return (
    <form className="question" onSubmit={(e) => (e.preventDefault(), resolve({ value: text }))}>
      <p>{interrupt.message}</p>
      {interrupt.reason === "tool_call" && (
        <>
          <pre>{`${about.tool} ${JSON.stringify(about.params)}`}</pre>
          <button type="button" onClick={() => resolve({ approved: true })}>Approve</button>
          <button type="button" onClick={() => resolve({ approved: false })}>Refuse</button>
        </>
      )}
      {interrupt.reason === "permission" && <button type="button" onClick={() => resolve({ granted: about.scopes })}>Allow {about.scopes.join(", ")}</button>}
      {interrupt.reason === "input_required" &&
        (about.options ? (
          about.options.map((o) => <button type="button" key={o.id} onClick={() => resolve({ value: o.value ?? o.id })}>{o.label}</button>)
        ) : (
          <>
            <input aria-label="Answer" value={text} onChange={(e) => setText(e.target.value)} />
            <button>Answer</button>
          </>
        ))}
      <button type="button" onClick={cancel}>Cancel</button>
    </form>
  );
}

/** Waits until the server answers again. */
async function reachable() {
  while (!(await fetch("/api/copilotkit/info").catch(() => null))?.ok) await new Promise((done) => setTimeout(done, 1000));
}

function Page() {
  useInterrupt({ agentId: "demo", render: (props) => <Question {...props} /> });
  // The connection was lost: the chat connects to its thread again when the server can be reached.
  const [lost, setLost] = useState(0);
  const { agent } = useAgent({ agentId: "demo" });
  const reconnect = async ({ error }) => {
    if (!(error instanceof TypeError)) return;
    await reachable();
    agent.pendingInterrupts = []; // it keeps one that it has answered until a run ends, and does not connect then
    setLost((n) => n + 1);
  };
  return <CopilotChat key={lost} agentId="demo" threadId={threadId} onError={reconnect} />;
}

createRoot(document.getElementById("root")).render(
  <CopilotKitProvider runtimeUrl="/api/copilotkit" enableInspector={false}>
    <main style={{ height: "100vh", maxWidth: 760, margin: "0 auto" }}>
      <Page />
    </main>
  </CopilotKitProvider>,
);
