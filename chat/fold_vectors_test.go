package chat

import (
	"encoding/json"
	"strconv"
	"strings"
)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// vectors are the logs that every fold must fold to the same items.
var vectors = []struct {
	name string
	play func(s *script)
}{
	{"plain-answer", func(s *script) {
		s.answering("2 + 2?")
		s.on("", AgentText{Block: "b1", Text: "Four.", Final: true})
		s.on("", AgentUsage{Model: "demo", Usage: Usage{InputTokens: 12, OutputTokens: 3}})
		s.done("", Done, "")
	}},
	{"streaming", func(s *script) {
		s.answering("count")
		s.piece("", "b1", 0, "one ")
		s.piece("", "b1", 4, "two ")
		s.piece("", "b1", 4, "two three ") // text that is already there is skipped
		s.piece("", "b1", 99, "lost")      // a gap
		s.piece("", "b1", 0, "one ")       // old
		s.piece("", "b1", 14, "fo")
		s.on("", AgentText{Block: "b1", Text: "one two three four", Final: true})
		s.piece("", "b1", 16, "ur") // late: the block is finished
		s.done("", Done, "")
	}},
	{"streaming-open", func(s *script) {
		s.answering("count")
		s.pieceOf("", "th", 0, "Let me ", ThinkingBlock)
		s.pieceOf("", "th", 7, "see.", ThinkingBlock)
		s.on("", AgentThinking{Block: "th", Text: "Let me see."})
		s.piece("", "b1", 0, "ein zw")
		s.piece("", "b1", 6, "ö")
		s.piece("", "b1", 8, "lf") // offsets count bytes
	}},
	{"two-blocks-open", func(s *script) {
		s.answering("two lines at once")
		s.on("", WorkstreamLaunched{ID: "w1", Task: "side"})
		s.turn("w1", s.seq)
		s.piece("", "m", 0, "main ")
		s.piece("w1", "s", 0, "side ")
		s.on("", AgentToolCall{CallID: "c1", Tool: "look"})
		s.piece("", "m", 5, "text")
		s.on("w1", AgentText{Block: "s", Text: "side text"})
	}},
	{"block-again", func(s *script) { // outside of turns a block id may be used again
		s.piece("", "b", 0, "one ")
		s.on("", AgentText{Block: "b", Text: "one two"})
		s.piece("", "b", 4, "late")
		s.piece("", "b", 0, "three ")
		s.piece("", "b", 6, "four")
		s.on("", AgentText{Block: "b", Text: "three four"})
		s.piece("", "b", 0, "five")
	}},
	{"thinking", func(s *script) {
		s.answering("why?")
		s.on("", AgentThinking{Block: "b1", Text: "Because…", Signature: "sig"})
		s.on("", AgentThinking{Block: "b2", Text: "", Redacted: "opaque"})
		s.on("", AgentText{Block: "b3", Text: "So it is.", Final: true})
		s.done("", Done, "")
	}},
	{"tool-ok", func(s *script) {
		s.answering("weather?")
		s.on("", AgentToolCall{CallID: "c1", Tool: "weather", Params: raw(`{"city":"Oslo"}`)})
		s.on("", AgentToolProgress{CallID: "c1", Done: 1, Total: 2, Message: "asking"})
		s.on("", AgentToolProgress{CallID: "c1", Done: 2, Total: 2, Items: []ProgressItem{{ID: "a", Status: "success", DurationMS: 40}}})
		s.on("", AgentToolResult{CallID: "c1", Tool: "weather", Result: raw(`{"c":4.5}`)})
		s.on("", AgentToolResult{CallID: "c1", Tool: "weather", Result: raw(`"again"`)}) // the first result counts
		s.done("", Done, "")
	}},
	{"tool-errors", func(s *script) {
		s.answering("try")
		s.on("", AgentToolCall{CallID: "c1", Tool: "web"})
		s.on("", AgentToolError{CallID: "c1", Tool: "web", Error: "503", Code: "timeout"})
		s.on("", AgentToolCall{CallID: "c2", Tool: "rm", Params: raw(`["-r"]`)})
		s.on("", AgentToolError{CallID: "c2", Error: "not allowed", Code: Denial})
		s.on("", AgentToolCall{CallID: "c3", Tool: "pay"})
		s.on("", AgentToolError{CallID: "c3", Error: "cut off", Code: UnknownOutcome})
		s.done("", Done, "")
	}},
	{"tools-parallel", func(s *script) {
		s.answering("all at once")
		s.on("", AgentToolCall{CallID: "c1", Tool: "a"})
		s.on("", AgentToolCall{CallID: "c2", Tool: "b"})
		s.on("", AgentToolCall{CallID: "c3", Tool: "c"})
		s.on("", AgentToolResult{CallID: "c3", Result: raw(`null`)})
		s.on("", AgentToolResult{CallID: "c1", Result: raw(`[1,2]`)})
		s.done("", Failed, "b never came back")
	}},
	{"tool-batch", func(s *script) {
		s.answering("many files")
		s.on("", AgentToolProgress{BatchID: "up", Tool: "upload", Done: 0, Total: 2})
		s.on("", AgentToolProgress{BatchID: "up", Done: 1, Total: 2, Items: []ProgressItem{{ID: "a.txt", Status: "success"}, {ID: "b.txt", Status: "running"}}})
		s.on("", AgentToolProgress{BatchID: "up", Done: 2, Total: 2})
		s.on("", AgentToolProgress{BatchID: "other", Done: 5})
		s.done("", Done, "")
	}},
	{"approval-edited", func(s *script) {
		s.answering("clean up")
		s.on("", AgentApprovalRequest{RequestID: "p-1", Calls: []ApprovalCall{
			{CallID: "c1", Tool: "delete", Params: raw(`{"path":"/"}`), Risk: "high"}, {CallID: "c2", Tool: "send", Params: raw(`{}`)},
		}, Timeout: 60, Deadline: s.at + 60_000_000})
		s.say(jon, UserApprovalResponse{RequestID: "p-1", Decisions: []Decision{
			{CallID: "c1", Approve: true, Params: raw(`{"path":"/tmp"}`), Remember: "session"}, {CallID: "c2", Reason: "not now"},
		}})
		s.on("", AgentToolCall{CallID: "c1", Tool: "delete", Params: raw(`{"path":"/tmp"}`)})
		s.on("", AgentToolResult{CallID: "c1", Tool: "delete", Result: raw(`"ok"`)})
		s.on("", AgentToolError{CallID: "c2", Tool: "send", Error: "not now", Code: Denial})
		s.done("", Done, "")
	}},
	{"inputs-answered", func(s *script) {
		s.answering("/tour")
		opts := []Option{{ID: "a", Label: "Apple", Value: "apple"}, {ID: "b", Label: "Bread", Description: "fresh"}}
		for i, in := range []AgentInputRequest{
			{InputType: InputText, Text: "Name?", Placeholder: "yours"},
			{InputType: InputBinary, Text: "Sure?", Options: []Option{{ID: "y", Label: "Yes"}, {ID: "n", Label: "No"}}},
			{InputType: InputRadio, Text: "One?", Options: opts},
			{InputType: InputCheckbox, Text: "Some?", Options: opts, Min: 1, Max: 2},
			{InputType: InputDropdown, Text: "Which?", Options: opts, Required: new(false)},
			{InputType: InputOAuth, Text: "Consent?", URL: "https://id.example/ok"},
		} {
			in.RequestID = "q" + strconv.Itoa(i+1)
			s.on("", in)
		}
		s.on("", AgentInputRequest{RequestID: "q7", InputType: InputNotification, Text: "FYI"})
		s.say(mira, UserInputResponse{RequestID: "q2", Values: []string{"y"}}) // in any order
		s.say(mira, UserInputResponse{RequestID: "q1", Text: "Mira"})
		s.say(jon, UserInputResponse{RequestID: "q3", Values: []string{"b"}})
		s.say(mira, UserInputResponse{RequestID: "q4", Values: []string{"apple", "b"}})
		s.say(mira, UserInputResponse{RequestID: "q5"})
		s.say(mira, UserInputResponse{RequestID: "q6"})
		s.say(jon, UserInputResponse{RequestID: "q1", Text: "Jon"}) // the first answer wins
		s.on("", AgentText{Text: "Thanks.", Final: true})
		s.done("", Done, "")
	}},
	{"prompts-open", func(s *script) {
		s.answering("ask me")
		s.on("", WorkstreamLaunched{ID: "pricing", Task: "prices"})
		s.turn("pricing", s.seq)
		s.on("", AgentInputRequest{RequestID: "main", InputType: InputText, Text: "Go on?", Timeout: 120, Deadline: s.at + 120_000_000})
		s.on("pricing", AgentInputRequest{RequestID: "side", InputType: InputRadio, Text: "Baseline?", Options: []Option{{ID: "1", Label: "This year"}}})
	}},
	{"prompt-expired", func(s *script) {
		s.answering("hurry")
		s.on("", AgentInputRequest{RequestID: "p1", InputType: InputText, Text: "Quick?", Timeout: 1, Deadline: s.at + 1_000_000, Error: "Too late."})
		s.server("", PromptClosed{RequestID: "p1", Reason: Expired})
		s.on("", AgentText{Text: "Nobody answered in time.", Final: true})
		s.done("", Done, "")
	}},
	{"permission", func(s *script) {
		s.answering("may I?")
		s.on("", AgentPermissionRequest{RequestID: "p1", Scopes: []string{"mail.read", "mail.send"}, Justification: "to reply", Tool: "mail", Params: raw(`{"to":"x"}`)})
		s.say(mira, UserPermissionResponse{RequestID: "p1", Granted: []string{"mail.read"}, Denied: []string{"mail.send"}, Duration: "session"})
		s.on("", AgentPermissionRequest{RequestID: "p2", Scopes: []string{"calendar"}})
		s.say(mira, UserPermissionResponse{RequestID: "p2", Granted: []string{}, Denied: []string{"calendar"}})
		s.done("", Done, "")
	}},
	{"plan-revisions", func(s *script) {
		s.answering("plan it")
		task := func(status string) []Task {
			return []Task{{ID: "1", Title: "Load", Status: status}, {ID: "2", Title: "Explain", Status: "pending", Detail: "why south fell"}}
		}
		s.on("", AgentPlan{Tasks: task("pending")})
		s.on("", AgentStatus{Message: "Loading", Phase: "executing_tool"})
		s.on("", AgentPlan{Tasks: task("in_progress")})
		s.on("", AgentStatus{Message: "Still loading"})
		s.on("", AgentPlan{Tasks: task("done"), Comment: "loaded"})
		s.done("", Done, "")
		s.answering("another")
		s.on("", AgentPlan{Tasks: []Task{{ID: "1", Title: "New", Status: "pending"}}})
		s.on("", AgentStatus{Message: "Thinking"})
	}},
	{"artifacts-and-files", func(s *script) {
		s.say(mira, FileUploaded{Path: "in/data.csv", Name: "data.csv", MediaType: "text/csv", Size: 1024, SHA256: strings.Repeat("ab", 32)})
		s.answering("make a table")
		s.on("", AgentArtifact{ArtifactID: "a1", ArtifactType: "table", Title: "Margins", Data: raw(`{"columns":["a"],"rows":[[1]]}`)})
		s.on("", AgentArtifact{ArtifactType: "file", Path: "out/report.pdf", MediaType: "application/pdf", Size: 99})
		s.on("", AgentShare{ShareID: "sh1", Title: "Report", ShareType: "page", Path: "out"})
		s.done("", Done, "")
		s.say(mira, FileUploaded{Path: "in/data.csv", Size: 2048}) // replaces the first
		s.say(mira, FileRemoved{Path: "in/data.csv"})
		s.say(mira, FileRemoved{Path: "never/there"})
	}},
	{"steering", func(s *script) {
		s.say(mira, SessionUpdated{Policy: new(Steer)})
		s.answering("write a poem")
		first := s.ask(mira, "make it short")
		s.ask(jon, "and sad")
		s.append(Event{Actor: System, Turn: s.turns[""], Body: TurnInput{Sequences: []Seq{first}}})
		s.on("", AgentText{Text: "Rain.", Final: true})
		s.done("", Done, "")
	}},
	{"steering-waits", func(s *script) {
		s.say(mira, SessionUpdated{Policy: new(Steer)})
		s.answering("write a poem")
		s.ask(mira, "make it short")
	}},
	{"queue-and-withdrawal", func(s *script) {
		s.answering("first")
		s.append(Event{Actor: mira, ClientID: "c-2", Body: UserMessage{Text: "second", UserID: "mira"}})
		third := s.append(Event{Actor: mira, ClientID: "c-3", Body: UserMessage{Text: "third"}})
		s.append(Event{Actor: mira, ClientID: "c-4", Body: UserMessage{Text: "fourth"}})
		s.say(mira, UserMessageWithdrawn{Sequence: third})
		s.on("", AgentText{Text: "You said: first", Final: true})
		s.done("", Done, "")
		s.turn("", 4)
	}},
	{"interrupt", func(s *script) {
		s.say(mira, SessionUpdated{Policy: new(Interrupt)})
		s.answering("long story")
		s.piece("", "b1", 0, "Once upon ")
		again := s.ask(mira, "stop, a joke instead")
		s.server("", TurnStopRequested{TurnID: s.turns[""], By: mira, Reason: "a new message"})
		s.server("", AgentText{Block: "b1", Text: "Once upon ", Partial: true})
		s.done("", Stopped, "")
		s.turn("", again)
		s.on("", AgentText{Block: "b1", Text: "Knock knock.", Final: true}) // a block id may be used again in another turn
		s.done("", Done, "")
	}},
	{"stop-with-partial-text", func(s *script) {
		s.answering("/stream 1000")
		s.piece("", "b1", 0, "tok1 tok2")
		s.on("", AgentToolCall{CallID: "c1", Tool: "slow"})
		s.on("", AgentInputRequest{RequestID: "p1", InputType: InputText, Text: "More?"})
		s.append(Event{Actor: jon, Turn: s.turns[""], Body: TurnStopRequested{TurnID: s.turns[""], By: jon}})
		s.server("", PromptClosed{RequestID: "p1", Reason: Withdrawn})
		s.server("", AgentText{Block: "b1", Text: "tok1 tok2", Partial: true})
		s.done("", Stopped, "")
	}},
	{"resume-after-crash", func(s *script) {
		s.answering("/stream 10")
		s.piece("", "b1", 0, "tok1 ")
		s.on("", AgentToolCall{CallID: "c1", Tool: "pay"})
		s.server("", TurnResumed{TurnID: s.turns[""], Attempt: 2, Reason: "the server was restarted"})
		s.piece("", "b1", 5, "tok2")
		s.server("", AgentToolError{CallID: "c1", Tool: "pay", Error: "the outcome is not known", Code: UnknownOutcome})
		s.on("", AgentText{Block: "b1", Text: "tok1 tok2", Final: true})
		s.done("", Done, "")
	}},
	{"interrupted-turn", func(s *script) {
		s.answering("worker, please")
		s.piece("", "b1", 0, "never finished") // is removed with its turn
		s.done("", Interrupted, "the worker did not come back")
	}},
	{"workstreams", func(s *script) {
		s.answering("/work 4")
		for _, id := range []string{"w1", "w2", "w3", "w4"} {
			s.on("", WorkstreamLaunched{ID: id, Name: "Line " + id, Task: "work", DeadlineSeconds: 300, Deadline: s.at + 300_000_000, Interactive: id == "w4"})
			s.turn(id, s.seq)
		}
		s.server("", WorkstreamProgress{ID: "w1", Phase: "planning", Iteration: 1, Message: "reading", Share: 0.25})
		s.on("w1", AgentText{Block: "x", Text: "from w1"})
		s.server("", WorkstreamProgress{ID: "w1", Phase: "executing_tool", Iteration: 2})
		s.server("", WorkstreamWarning{ID: "w2", Share: 0.75, Message: "three quarters"})
		s.on("", WorkstreamSteered{ID: "w3", Command: "pause_requested"})
		s.say(mira, WorkstreamSteered{ID: "w3", Command: "add_instruction", Text: "be brief"})
		s.say(mira, WorkstreamMessage{ID: "w4", Text: "and then?"})
		s.done("w1", Done, "")
		s.server("", WorkstreamCompleted{ID: "w1", Summary: "all good", Result: raw(`{"n":1}`)})
		s.done("w2", Stopped, "")
		s.server("", WorkstreamTimeout{ID: "w2", Summary: "half of it"})
		s.server("", WorkstreamCanceling{ID: "w3", Reason: "not needed", Deadline: s.at + 60_000_000})
		s.done("w3", Stopped, "")
		s.server("", WorkstreamCanceled{ID: "w3", Reason: "not needed"})
		s.done("w4", Failed, "boom")
		s.server("", WorkstreamFailed{ID: "w4", Error: "boom"})
		s.done("", Done, "")
	}},
	{"workstream-life", func(s *script) {
		s.answering("go")
		s.on("", AgentPlan{Tasks: []Task{{ID: "1", Title: "T", Status: "in_progress"}}})
		s.on("", WorkstreamLaunched{ID: "expert", LaunchID: "l-1", Name: "Expert", Task: "know", Agent: "oracle", DeadlineSeconds: 60, Interactive: true})
		s.turn("expert", s.seq)
		s.on("expert", AgentPlan{Tasks: []Task{{ID: "x", Title: "its own", Status: "pending"}}})
		s.server("", WorkstreamProgress{ID: "expert", Phase: "executing_tool", Tool: "grep", Iteration: 1, Share: 0.1})
		s.server("", WorkstreamProgress{ID: "expert", Message: "still there"})
		s.on("expert", AgentText{Text: "I know."})
		s.done("expert", Done, "")
		s.server("", WorkstreamProgress{ID: "expert", Phase: "done", Summary: "I know."})
		s.say(mira, WorkstreamMessage{ID: "expert", Text: "and why?"})
		s.turn("expert", s.seq)
		s.server("", WorkstreamWarning{ID: "expert", Share: 0.75})
		s.server("", WorkstreamSteered{ID: "expert", Command: "wrap_up", Text: "wrap up"})
		s.server("", WorkstreamCanceling{ID: "expert", By: &mira, Reason: "enough", Deadline: s.at + 60_000_000})
		s.done("expert", Stopped, "")
		s.server("", WorkstreamCanceled{ID: "expert", Reason: "enough", Files: []string{"files/expert/a.txt"}})
		s.done("", Done, "")
	}},
	{"unknown-types", func(s *script) {
		s.raw("", "session.init", `{"tools":["a"],"mcp_servers":{"x":{"y":null}}}`)
		s.raw("", "weather.changed", `"<rain> & \"wind\""`)
		s.raw("", "empty.thing", `null`)
		s.answering("hello")
		s.raw("", "agent.message_to_caller", `{"n":12345678901234567890,"f":1.50}`)
		s.raw("", "agent.text", `{"text":"Hi.","later_field":{"a":1}}`)
		s.done("", Done, "")
	}},
	{"x1-spellings", func(s *script) {
		s.raw("", "user.message", `{"text":"from x1","user_id":"u1","sender_id":"u1","kind":"chat"}`)
		s.turn("", s.seq)
		s.raw("", "agent.status", `{"status":"calling_tool","detail":"Reading a file"}`)
		s.raw("", "agent.tool_call", `{"tool_name":"read","tool_use_id":"tu1","input":{"path":"a"}}`)
		s.raw("", "agent.tool_result", `{"tool_use_id":"tu1","content":[{"type":"text","text":"A"}],"is_error":false}`)
		s.raw("", "agent.tool_call", `{"tool":"list","params":{}}`) // x1's other spelling has no call id
		s.raw("", "agent.tool_call", `{"tool":"list","params":{"dir":"b"}}`)
		s.raw("", "agent.tool_result", `{"tool":"list","result":["x"]}`)
		s.raw("", "agent.tool_error", `{"tool":"list","error":{"code":2}}`)
		s.raw("", "agent.input_request", `{"request_id":"r1","question":"Which?","options":["left","right"]}`)
		s.append(Event{Actor: mira, Type: "user.input_response", Payload: raw(`{"request_id":"r1","answer":"left"}`)})
		s.raw("", "agent.artifact", `{"artifact_type":"code","title":"T","content":"print(1)","language":"python"}`)
		s.raw("", "agent.usage", `{"model":"m","input_tokens":5,"output_tokens":7,"cache_creation_input_tokens":1,"cache_read_input_tokens":2}`)
		s.raw("", "agent.error", `{"message":"hiccup","recoverable":true}`)
		s.done("", Done, "")
		s.raw("", "session.failed", `{"error":"out of memory"}`)
	}},
	{"completed-and-reopened", func(s *script) {
		s.answering("bye")
		s.on("", AgentText{Text: "Bye.", Final: true})
		s.done("", Done, "")
		s.say(mira, SessionCompleted{Outcome: "solved"})
		s.ask(mira, "one more thing")
	}},
	{"failed-turn", func(s *script) {
		s.answering("/fail boom")
		s.on("", AgentError{Message: "boom", Code: "demo"})
		s.done("", Failed, "boom")
		s.say(demo, SessionFailed{ErrorMessage: "boom"})
	}},
	{"nobody-answers", func(s *script) {
		s.say(mira, SessionUpdated{Agent: new(NoAgent), Title: new("Notes")})
		s.append(Event{Actor: mira, ClientID: "c-1", Body: UserMessage{Text: "to myself", Content: []Part{
			{Type: "image", Path: "in/a.png", MediaType: "image/png", Name: "a.png", Size: 10}, {Type: "text", Text: "look"},
		}, Context: raw(`{"page":"/x"}`)}})
	}},
	{"unicode-and-big-numbers", func(s *script) {
		s.answering("\u2028 “quotes” 👩‍👩‍👧 \x00 <b>&amp;</b> 日本語 \u202eabc")
		s.piece("", "b1", 0, "👩‍👩‍👧")
		s.piece("", "b1", len("👩‍👩‍👧"), " é")
		s.on("", AgentToolCall{CallID: "call with spaces/ü", Tool: "math", Params: raw(`{"n":9007199254740993,"x":1e400,"deep":[[[[{}]]]]}`)})
		s.on("", AgentToolResult{CallID: "call with spaces/ü", Result: raw(`123456789012345678901234567890`)})
		s.on("", AgentUsage{Usage: Usage{InputTokens: 1 << 52, OutputTokens: 1}})
		s.on("", AgentText{Block: "b1", Text: "👩‍👩‍👧 é\u0000\r\n\t\"\\", Final: true})
		s.done("", Done, "")
	}},
	{"cut-in-two", func(s *script) {
		// The beginnings of all items are before the window.
		s.answering("long ago")
		turn := s.turns[""]
		s.on("", WorkstreamLaunched{ID: "w1", Task: "old"})
		s.entries = nil
		s.turns[""] = turn
		s.on("", AgentToolProgress{CallID: "c1", Done: 1, Total: 2})
		s.on("", AgentToolResult{CallID: "c1", Tool: "a", Result: raw(`1`)})
		s.on("", AgentToolError{CallID: "c2", Tool: "b", Error: "no"})
		s.say(mira, UserInputResponse{RequestID: "p1", Text: "yes"})
		s.server("", PromptClosed{RequestID: "p2", Reason: Expired})
		s.on("", AgentPlan{Tasks: []Task{{ID: "1", Title: "T", Status: "done"}}})
		s.server("", WorkstreamProgress{ID: "w1", Phase: "planning"})
		s.server("", WorkstreamCompleted{ID: "w1", Summary: "done"})
		s.on("", AgentText{Block: "b1", Text: "end", Final: true})
		s.done("", Done, "")
	}},
}
