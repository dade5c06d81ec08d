import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, isToolUIPart, lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from "ai";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const api = "/api/chat";

// The address has the id of the chat, so that a page that is loaded again finds it.
const id = new URLSearchParams(location.search).get("chat") ?? crypto.randomUUID();
history.replaceState(null, "", `?chat=${encodeURIComponent(id)}`);

/** Waits until the server answers again. */
async function reachable() {
  while (!(await fetch(`${api}/${encodeURIComponent(id)}/messages`).catch(() => null))?.ok) await new Promise((done) => setTimeout(done, 1000));
}

function Page({ messages: loaded }) {
  const [text, setText] = useState("");
  const chat = useChat({
    id,
    messages: loaded,
    resume: true, // an answer that is being written continues after a reload
    transport: new DefaultChatTransport({ api: `${api}?replay=finished` }),
    // The connection was lost: the answer continues when the server can be reached again.
    onError: (e) => e instanceof TypeError && reachable().then(() => chat.resumeStream()),
    // An answer is sent when all questions of the agent are answered.
    sendAutomaticallyWhen: (o) => lastAssistantMessageIsCompleteWithApprovalResponses(o) || lastAssistantMessageIsCompleteWithToolCalls(o),
  });
  const busy = chat.status === "submitted" || chat.status === "streaming";
  const submit = (e) => {
    e.preventDefault();
    if (text.trim() === "") return;
    chat.sendMessage({ text });
    setText("");
  };
  return (
    <main>
      <ol aria-label="Messages">
        {chat.messages.map((m) => (
          <li key={m.id} className={m.role}>
            {m.parts.map((p, i) => <Part key={i} part={p} chat={chat} />)}
          </li>
        ))}
      </ol>
      {chat.error && <p role="alert">{chat.error.message}</p>}
      <form onSubmit={submit}>
        <input aria-label="Message" value={text} onChange={(e) => setText(e.target.value)} placeholder="Try /tour or /approve deploy {}" />
        {busy
          ? <button type="button" onClick={() => fetch(`${api}/${encodeURIComponent(id)}/stop`, { method: "POST" })}>Stop</button>
          : <button>Send</button>}
      </form>
    </main>
  );
}

function Part({ part, chat }) {
  if (part.type === "text") return <p>{part.text}</p>;
  if (part.type === "reasoning") return <p className="thinking">{part.text}</p>;
  if (part.type === "file") return <p><a href={part.url}>{part.filename ?? part.mediaType}</a></p>;
  if (part.type === "data-plan") return <ul className="card">{part.data.tasks.map((t) => <li key={t.id}>{t.title}: {t.status}</li>)}</ul>;
  if (part.type === "data-workstream") return <p className="card">{part.data.name ?? part.data.id}: {part.data.state}</p>;
  if (!isToolUIPart(part)) return null;
  return part.type === "tool-ask_person" ? <Question part={part} chat={chat} /> : <Tool part={part} chat={chat} />;
}

function Tool({ part, chat }) {
  const decide = (approved) => chat.addToolApprovalResponse({ id: part.approval.id, approved });
  return (
    <div className="card">
      <strong>{part.toolName ?? part.type.slice(5)}</strong> <small>{part.state}</small>
      <pre>{JSON.stringify(part.input)}</pre>
      {part.state === "output-available" && <pre>{JSON.stringify(part.output)}</pre>}
      {part.state === "output-error" && <p role="alert">{part.errorText}</p>}
      {part.state === "approval-requested" && (
        <p>
          <button onClick={() => decide(true)}>Approve</button>
          <button onClick={() => decide(false)}>Deny</button>
        </p>
      )}
    </div>
  );
}

function Question({ part, chat }) {
  const { text, options } = part.input;
  const answer = (output) => chat.addToolOutput({ tool: "ask_person", toolCallId: part.toolCallId, output });
  return (
    <div className="card">
      <p>{text}</p>
      {part.state === "output-available" && <p><strong>{String(part.output)}</strong></p>}
      {part.state === "output-error" && <p role="alert">{part.errorText}</p>}
      {part.state === "input-available" && options?.map((o) => <button key={o.id} onClick={() => answer(o.value ?? o.id)}>{o.label}</button>)}
    </div>
  );
}

const res = await fetch(`${api}/${encodeURIComponent(id)}/messages`);
createRoot(document.getElementById("root")).render(<Page messages={res.ok ? await res.json() : []} />);
