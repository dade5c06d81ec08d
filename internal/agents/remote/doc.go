// Package remote answers turns through HTTP endpoints: an agent that somebody
// else runs is called once per turn and streams its answer back. Four protocols
// are spoken: OpenAI-compatible chat, Parley's own NDJSON, the NeMo Agent Toolkit
// (its HTTP stream or its WebSocket) and AG-UI. docs/remote.md describes them.
//
// What the endpoint sends becomes facts and previews of the session, so it gains
// what every agent has: readers that come and go, prompts that outlive
// connections and restarts, a stop from anywhere. Addresses come from the
// operator's configuration and may be private; redirects are refused, answers
// are bounded in size and time.
//
// # After a crash
//
// An endpoint does not know where it was. It is called again, and as long as it
// says what is in the log already, nothing is said again; from where it differs,
// what it says stands behind what was shown, which is never taken back. Because
// calling again may repeat what tools did, a turn in which a tool was used ends
// as interrupted instead, unless the configuration says otherwise. Questions are
// facts: an endpoint that asked is told the answer, not asked again.
//
// # Concurrency
//
// An Agent answers any number of turns at once. Answer returns when the
// connection it made is closed; Close drops idle ones.
package remote
