package native

import (
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
)

// operation is one route: how it is served and how it is described. Routes and
// the OpenAPI document are made from the same table, so they cannot differ.
type operation struct {
	method, path string
	do           action

	public, upload, longBody, queryToken bool
	deliberate                           bool // a GET that a web page must not be able to trigger

	exact bool // the path has a session id, never an alias

	name    string // operationId
	says    string
	query   []param
	in      any    // a value of the type of the body, if do does not have it
	inType  string // media type of the body; "" means application/json
	out     any    // a value of the type of the answer, if do does not have it
	outType string // media type of the answer; "" means application/json
	code    int    // of success
}

// action handles the requests of an operation; code is the status of success.
type action struct {
	run     func(w http.ResponseWriter, r *http.Request, c chat.Caller, code int) error
	in, out any // values of the types of the body and of the answer; nil for none
}

// raw is an action that answers by itself.
func raw(h edge.Handler) action {
	return action{run: func(w http.ResponseWriter, r *http.Request, c chat.Caller, _ int) error { return h(w, r, c) }}
}

// reply is an action that answers with the value that f returns.
func reply[O any](d *Dialect, f func(r *http.Request, c chat.Caller) (O, error)) action {
	return action{out: *new(O), run: func(w http.ResponseWriter, r *http.Request, c chat.Caller, code int) error {
		v, err := f(r, c)
		if err == nil {
			d.http.Send(w, r, code, v)
		}
		return err
	}}
}

// take is reply for an operation with a JSON body.
func take[I, O any](d *Dialect, f func(r *http.Request, c chat.Caller, in I) (O, error)) action {
	a := reply(d, func(r *http.Request, c chat.Caller) (out O, err error) {
		var in I
		if err = d.http.Read(r, &in); err == nil {
			out, err = f(r, c, in)
		}
		return out, err
	})
	a.in = *new(I)
	return a
}

// param is a query parameter.
type param struct{ name, kind, says string }

var (
	paramLimit  = param{"limit", "integer", "How many at most, 1 to 1000; 100 when absent."}
	paramBefore = param{"before", "integer", "Only what came before this sequence (exclusive)."}
)

const base = "/parley/v1"

func (d *Dialect) operations() []operation {
	const session = base + "/sessions/{id}"
	return []operation{
		{method: "POST", path: base + "/sessions", do: raw(d.createSession), name: "createSession", in: chat.NewSession{}, out: chat.Session{}, code: 201,
			says: "Begins a session. Without an agent the server's default agent answers; `none` means nobody does. Asking again for the very same session gives it with 200."},
		{method: "GET", path: base + "/sessions", do: reply(d, d.listSessions), name: "listSessions", code: 200,
			says: "Lists sessions, the most recently active first.",
			query: []param{paramLimit, {"cursor", "string", "next_cursor of the page before."}, {"agent", "string", "Only of this agent."},
				{"user", "string", "Only those that the user with this id owns or is a member of."},
				{"status", "string", "Only in this state: idle, running, waiting, completed, failed."}, {"archived", "boolean", "Only archived ones, or only others; both when absent."},
				{"since", "string", "Only those that were last active at this time or later."}, {"until", "string", "Only those that were last active before this time."}, {"q", "string", "Words that occur in title, summary or id."}}},
		{method: "GET", path: session, do: reply(d, d.getSession), name: "getSession", code: 200, says: "Returns a session's record."},
		{method: "PATCH", path: session, do: take(d, d.patchSession), name: "updateSession", code: 200,
			says: "Changes the fields that are given."},
		{method: "DELETE", path: session, do: reply(d, d.eraseSession), name: "eraseSession", code: 200,
			says: "Erases a session: its text is removed from every file. Later requests with its id are answered with `gone`. Backups are not covered."},
		{method: "POST", path: session + "/accept", do: reply(d, d.acceptSession), name: "acceptSession", code: 200, exact: true,
			says: "Accepts a session that somebody else has made the caller a member of: clients that choose their own conversation ids (NeMo) reach it by its id from now on. A session of the caller that had this id as an alias keeps its own id."},
		{method: "POST", path: session + "/events", do: raw(d.appendEvents), name: "appendEvents", in: draftBody{}, out: eventsBody{}, code: 201,
			says: "Appends a draft, or an array of drafts as one unit. Every event in the answer is durable. A `client_id` that was used before gives the first event again."},
		{method: "GET", path: session + "/events", do: raw(d.readEvents), name: "readEvents", out: eventsPage{}, code: 200, says: "Reads stored events.",
			query: []param{{"after", "integer", "Only events after this sequence (exclusive)."}, paramBefore, paramLimit,
				{"order", "string", "asc (oldest first) or desc."}, {"types", "string", "Only these types, separated by commas."}, {"workstream", "string", "Only this line of work; main is the main line."}}},
		{method: "GET", path: session + "/events/{seq}", do: raw(d.readEvent), name: "readEvent", out: chat.Event{}, code: 200, says: "Returns one event, in Parley's words or in those of another dialect.",
			query: []param{{"as", "string", "Name of a dialect; native when absent."}}},
		{method: "GET", path: session + "/stream", do: raw(d.streamEvents), name: "streamEvents", outType: "text/event-stream", code: 200, queryToken: true,
			says:  "Follows a session: what was missed, then what happens. Frames are `hello`, `event`, `preview`, `ping` and `bye`; the `id` of a frame is the cursor to come back with, as `Last-Event-ID` or `after`.",
			query: []param{{"after", "string", "A cursor; 0 is the beginning. Absent: from now on, preceded by the blocks that are being written."}}},
		{method: "POST", path: session + "/previews", do: raw(d.showPreviews), name: "showPreviews", in: previewBody{}, out: shownBody{}, code: 200, longBody: true,
			says: "Shows pieces of a block that is being written: one object, an array (taken as one unit), or one object per line, each shown as it arrives. An error says in `shown` how many were taken. Needs the scope agent."},
		{method: "POST", path: session + "/prompts/{request_id}/answer", do: take(d, d.answerPrompt), name: "answerPrompt", code: 200,
			says: "Answers a prompt. The first valid answer wins; others get a conflict that says who answered and when."},
		{method: "GET", path: base + "/prompts", do: reply(d, d.listPrompts), name: "listPrompts", code: 200,
			says:  "Lists the open prompts of all sessions in which the caller may answer, the most recently active session first.",
			query: []param{{"limit", "integer", "How many sessions at most, 1 to 1000; 100 when absent."}, {"cursor", "string", "next_cursor of the page before."}}},
		{method: "POST", path: session + "/stop", do: take(d, d.stopTurn), name: "stopTurn", code: 200,
			says: "Asks the running turn to end. With `workstream_id` it is that line's, and the workstream ends as canceled unless it is interactive. Workstreams go on when the main line is stopped, unless `workstreams` is true. Stopping what does not run is no error."},
		{method: "POST", path: session + "/fork", do: raw(d.forkSession), name: "forkSession", in: chat.Fork{}, out: chat.Session{}, code: 201,
			says: "Begins a session with a copy of the events of this one up to the event `after`, its files included; from then on the two are independent. What was under way at that event is ended in the fork; a message that waited there is answered anew. With `message` the fork begins with that message instead, in the same step, and what waited there is withdrawn; `settings` are those of the fork."},
		{method: "POST", path: session + "/workstreams", do: take(d, d.launchWorkstream), name: "launchWorkstream", code: 201,
			says: "Launches a workstream and returns at once with its `launch_id`. An `id` that was used before in the session is a conflict."},
		{method: "GET", path: session + "/workstreams", do: reply(d, d.listWorkstreams), name: "listWorkstreams", code: 200,
			says: "Tells how all workstreams are, in the order of their launch."},
		{method: "GET", path: session + "/workstreams/{workstream}", do: reply(d, d.getWorkstream), name: "getWorkstream", code: 200,
			says: "Tells how a workstream is. It is named by its id or its launch id."},
		{method: "POST", path: session + "/workstreams/{workstream}/message", do: take(d, d.messageWorkstream), name: "messageWorkstream", code: 200,
			says: "Hands a follow-up to a workstream: to its running turn, or it begins one."},
		{method: "POST", path: session + "/workstreams/{workstream}/steer", do: take(d, d.steerWorkstream), name: "steerWorkstream", code: 200,
			says: "Hands a directive to a workstream without ending it."},
		{method: "POST", path: session + "/workstreams/{workstream}/terminate", do: take(d, d.terminateWorkstream), name: "terminateWorkstream", code: 200,
			says: "Tells a workstream, and those it launched, to end; they have 60 s to do so. Terminating one that has ended is no error."},
		{method: "GET", path: session + "/snapshot", do: reply(d, d.snapshot), name: "getSnapshot", code: 200,
			says: "Returns the session as it is at this moment, with its last items and the cursor from which to follow it.", query: []param{{"items", "integer", "How many items at most, 0 to 2000; 200 when absent."}}},
		{method: "GET", path: session + "/items", do: reply(d, d.readItems), name: "readItems", code: 200,
			says: "Reads older items.", query: []param{paramBefore, paramLimit}},
		{method: "GET", path: session + "/messages", do: reply(d, d.readMessages), name: "readMessages", out: messagesPage{}, code: 200,
			says: "Reads the session as a model sees it, as messages of Letta. after and before are the id of a message or the sequence of an event.",
			query: []param{{"after", "string", "Only messages after this message or event (exclusive)."}, {"before", "string", "Only messages before this message or event (exclusive)."}, paramLimit,
				{"order", "string", "asc (oldest first) or desc."}, {"workstream", "string", "A line of work; the main line when absent."}}},
		{method: "GET", path: session + "/search", do: reply(d, d.searchEvents), name: "searchEvents", code: 200,
			says: "Looks for a text in what was said, newest first.", query: []param{{"q", "string", "What to look for."}, paramBefore, paramLimit}},
		{method: "GET", path: session + "/export", do: raw(d.exportSession), name: "exportSession", outType: "application/x-ndjson", code: 200, deliberate: true,
			says: "The whole log, one stored event per line. Needs a token in a header, or the header `X-Parley-Request`."},
		{method: "GET", path: session + "/artifacts", do: reply(d, d.listFiles), name: "listArtifacts", code: 200, says: "Lists the session's files.",
			query: []param{{"prefix", "string", "Only paths that begin so."}, {"after", "string", "Only paths after this one."}, paramLimit}},
		{method: "PUT", path: session + "/artifacts/{path...}", do: raw(d.putFile), name: "putArtifact", inType: "application/octet-stream", out: chat.FileInfo{}, code: 201, upload: true,
			says: "Stores a file. The session gets a `file.uploaded` event.", query: []param{{"workstream", "string", "Into the folder of this workstream; what is below out/ and files/ there is merged when it ends."}}},
		{method: "GET", path: session + "/artifacts/{path...}", do: raw(d.getFile), name: "getArtifact", outType: "application/octet-stream", code: 200,
			says: "Returns a file's bytes; ranges are answered."},
		{method: "HEAD", path: session + "/artifacts/{path...}", do: raw(d.getFile), name: "headArtifact", code: 200,
			says: "What is known of a file, without its bytes."},
		{method: "DELETE", path: session + "/artifacts/{path...}", do: raw(d.deleteFile), name: "deleteArtifact", code: 204, says: "Removes a file. The session gets a `file.removed` event."},
		{method: "GET", path: base + "/ws", do: raw(d.openSocket), name: "openSocket", code: 101, queryToken: true,
			says: "WebSocket that carries many sessions: watch, unwatch, append, preview, answer, stop, ping."},
		{method: "GET", path: base + "/agents", do: reply(d, d.listAgents), name: "listAgents", code: 200, says: "Lists the agents and their health."},
		{method: "GET", path: base + "/agents/{name}/work", do: raw(d.openWork), name: "openWork", code: 101, queryToken: true,
			says: "WebSocket by which a worker claims turns of an agent name and answers them. Needs the scope agent."},
		{method: "POST", path: base + "/import", do: raw(d.importSession), name: "importSession", inType: "application/x-ndjson", out: chat.Session{}, code: 201, upload: true,
			says: "Stores a log that was exported before, byte for byte, under its own id, which must be free. Needs the scope admin."},
		{method: "GET", path: base + "/backup", do: raw(d.backup), name: "backup", outType: "application/x-tar", code: 200, deliberate: true,
			says: "Streams a consistent copy of the whole store as a tar file. Needs the scope admin for all workspaces, and a token in a header or the header `X-Parley-Request`."},
		{method: "GET", path: base + "/verify", do: raw(d.verify), name: "verify", outType: "application/x-ndjson", code: 200, deliberate: true,
			says: "Walks the hash chain of every session and names what is damaged, one line of progress after the other. Needs the scope admin for all workspaces, and a token in a header or the header `X-Parley-Request`."},
		{method: "GET", path: base + "/audit", do: reply(d, d.listAudit), name: "listAudit", code: 200, deliberate: true,
			says: "Lists the audit log: sign-ins and refused ones, credentials, grants, members, exports, imports, erasures, backups, reloads. Needs the scope admin; an administrator of one workspace sees its entries only. Needs a token in a header or the header `X-Parley-Request`.",
			query: []param{{"after", "string", "Only entries behind this id."}, {"before", "string", "Only entries in front of this id."}, paramLimit,
				{"order", "string", "asc (oldest first) or desc; desc when absent, asc with after."}, {"event", "string", "Only this event."}, {"session", "string", "Only entries about this session."}}},
		{method: "GET", path: base + "/openapi.json", do: reply(d, d.openAPI), name: "openAPI", outType: "application/json", code: 200, public: true, says: "This document."},
	}
}

// draftBody describes a draft on the wire; chat.ParseDrafts reads it.
type draftBody struct {
	Type       string       `json:"type"`
	Payload    any          `json:"payload"`
	ClientID   string       `json:"client_id,omitempty"`
	Workstream string       `json:"workstream_id,omitempty"`
	Parent     chat.EventID `json:"parent_id,omitempty"`
	Turn       chat.TurnID  `json:"turn_id,omitempty"`
	Attempt    int          `json:"attempt,omitempty"`
}

func (d *Dialect) openAPI(*http.Request, chat.Caller) (any, error) { return d.described(), nil }
