import { AssistantRuntimeProvider, AuiIf, ComposerPrimitive, ErrorPrimitive, MessagePrimitive, ThreadPrimitive } from "@assistant-ui/react";
import { AssistantChatTransport, useChatRuntime } from "@assistant-ui/react-ai-sdk";
import { lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from "ai";
import { useState } from "react";
import { createRoot } from "react-dom/client";

// The address has the id of the chat, so that a page that is loaded again finds it.
const id = new URLSearchParams(location.search).get("chat") ?? crypto.randomUUID();
history.replaceState(null, "", `?chat=${encodeURIComponent(id)}`);
const api = `/api/chat/${encodeURIComponent(id)}`;

const newTransport = () => new AssistantChatTransport({
  api, // assistant-ui makes an id for each load of the page; the chat is the one in the path
  // The page asks for the stream of its chat when it is loaded. Parley knows whether there is one, so nothing is stored here.
  resumable: { storage: { getStreamId: () => id, setStreamId() {}, clear() {} }, resumeApi: `${api}/stream?replay=finished` },
});

function Page({ messages }) {
  const [transport] = useState(newTransport); // it asks for the stream once
  const runtime = useChatRuntime({
    messages,
    transport,
    joinStrategy: "none", // each assistant message of the log is a message of the page
    // The connection was lost: the chat is loaded again, and its answer continues.
    onError: (e) => e instanceof TypeError && load(),
    // An answer is sent when all questions of the agent are answered.
    sendAutomaticallyWhen: (o) => lastAssistantMessageIsCompleteWithApprovalResponses(o) || lastAssistantMessageIsCompleteWithToolCalls(o),
  });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <main>
        <ThreadPrimitive.Root className="thread">
          <div className="messages" role="log" aria-label="Messages">
            <ThreadPrimitive.Messages components={{ UserMessage, AssistantMessage }} />
          </div>
          <ComposerPrimitive.Root>
            <ComposerPrimitive.Input aria-label="Message" placeholder="Try /tour or /approve deploy {}" />
            <AuiIf condition={(s) => s.thread.isRunning}>
              <button type="button" onClick={() => fetch(`${api}/stop`, { method: "POST" })}>Stop</button>
            </AuiIf>
            <AuiIf condition={(s) => !s.thread.isRunning}>
              <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
            </AuiIf>
          </ComposerPrimitive.Root>
        </ThreadPrimitive.Root>
      </main>
    </AssistantRuntimeProvider>
  );
}

const UserMessage = () => <MessagePrimitive.Root render={<article className="user" />}><MessagePrimitive.Parts components={{ Text }} /></MessagePrimitive.Root>;

const AssistantMessage = () => (
  <MessagePrimitive.Root render={<article className="assistant" />}>
    <MessagePrimitive.Parts components={{ Text, Reasoning, tools: { by_name: { ask_person: Question }, Fallback: Tool }, data: { by_name: { plan: Plan, workstream: Workstream } } }} />
    <MessagePrimitive.Error>
      <ErrorPrimitive.Root><ErrorPrimitive.Message /></ErrorPrimitive.Root>
    </MessagePrimitive.Error>
  </MessagePrimitive.Root>
);

const Text = ({ text }) => <p>{text}</p>;
const Reasoning = ({ text }) => <p className="thinking">{text}</p>;
const Plan = ({ data }) => <ul className="card">{data.tasks.map((t) => <li key={t.id}>{t.title}: {t.status}</li>)}</ul>;
const Workstream = ({ data }) => <p className="card">{data.name ?? data.id}: {data.state}</p>;

function Tool({ toolName, args, result, isError, approval, respondToApproval }) {
  const asked = approval && approval.approved === undefined && result === undefined;
  return (
    <div className="card">
      <strong>{toolName}</strong>
      <pre>{JSON.stringify(args)}</pre>
      {result !== undefined && <pre role={isError ? "alert" : "status"}>{JSON.stringify(result)}</pre>}
      {asked && (
        <p>
          <button onClick={() => respondToApproval({ approved: true })}>Approve</button>
          <button onClick={() => respondToApproval({ approved: false })}>Deny</button>
        </p>
      )}
    </div>
  );
}

function Question({ args, result, addResult }) {
  return (
    <div className="card">
      <p>{args.text}</p>
      {result === undefined
        ? args.options?.map((o) => <button key={o.id} onClick={() => addResult(o.value ?? o.id)}>{o.label}</button>)
        : <p><strong>{String(result)}</strong></p>}
    </div>
  );
}

const root = createRoot(document.getElementById("root"));
let loads = 0;

/** Shows the chat as soon as the server can be reached. */
async function load() {
  let res;
  while (!(res = await fetch(`${api}/messages`).catch(() => null))?.ok) await new Promise((done) => setTimeout(done, 1000));
  root.render(<Page key={++loads} messages={await res.json()} />);
}

await load();
