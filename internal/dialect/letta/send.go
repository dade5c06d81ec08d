package letta

import (
	"cmp"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/retry"
)

func (q *request) sendToAgent(w http.ResponseWriter) error { return q.sendTo(w, false, false) }

func (q *request) streamAgent(w http.ResponseWriter) error { return q.sendTo(w, true, true) }

// sendTo sends messages to an agent's default conversation. streaming and fixed are those of readSend.
func (q *request) sendTo(w http.ResponseWriter, streaming, fixed bool) error {
	req, err := q.readSend(streaming, fixed)
	if err != nil {
		return err
	}
	cv, err := q.defaultConversation(q.PathValue("agent"))
	if err != nil {
		return err
	}
	return q.sendAndRespond(w, cv, req)
}

func (q *request) sendToConversation(w http.ResponseWriter) error {
	req, err := q.readSend(true, false)
	if err != nil {
		return err
	}
	cv, err := q.conversation(q.PathValue("conversation"), cmp.Or(req.agentID, q.Text("agent_id")))
	if err != nil {
		return err
	}
	return q.sendAndRespond(w, cv, req)
}

// sendAndRespond sends messages and answers with the run, as a stream or whole.
func (q *request) sendAndRespond(w http.ResponseWriter, cv *conversation, req *sendRequest) error {
	f, err := q.send(cv, req)
	switch {
	case err != nil:
		return err
	case req.stream:
		return f.stream(w)
	}
	return f.whole(w)
}

// sendAsync sends messages and answers with the run.
func (q *request) sendAsync() (any, error) {
	req, err := q.readSend(true, true) // accepts the fields that only streams use
	if err != nil {
		return nil, err
	}
	if err := q.checkCallback(req.callback); err != nil {
		return nil, err
	}
	req.options.Background = true
	cv, err := q.defaultConversation(q.PathValue("agent"))
	if err != nil {
		return nil, err
	}
	f, err := q.send(cv, req)
	if err != nil {
		return nil, err
	}
	if err := f.await(nil); err != nil {
		return nil, err
	}
	if err := q.addCallback(f.run, req.callback); err != nil {
		return nil, err
	}
	return q.runState(f.run)
}

// send stores the messages of a request and returns a follower of the run that answers them.
func (q *request) send(cv *conversation, req *sendRequest) (f *follower, err error) {
	if err := q.checkSend(cv, req); err != nil {
		return nil, err
	}
	// Requests to other nodes of a cluster do not have this lock. What they change is found by the draft's Expect.
	defer q.sendLocks.Lock(string(cv.session))()
	err = retry.WhileChanged(q.ctx, func() error {
		f, err = q.sendOnce(cv, req)
		return err
	})
	return f, err
}

func (q *request) sendOnce(cv *conversation, req *sendRequest) (*follower, error) {
	st, err := q.opt.Sessions.State(q.ctx, q.caller, cv.session)
	if err == nil {
		err = q.caller.May(&st.Session, chat.Answerer)
	}
	if err != nil {
		return nil, err
	}
	if req.approval != nil {
		return q.decide(cv, req, st)
	}
	otid := req.messages[len(req.messages)-1].otid
	line := st.Line(mainLine)
	busy := line.Turn != nil || len(line.Queue) > 0
	if busy {
		// A client that lost the answer sends the message again.
		e, err := q.sentWith(cv, otid)
		if err == nil && e == nil && otid == "" && req.retry && line.Turn != nil {
			e, err = q.repeated(cv, req, line.Turn.Trigger)
		}
		if err != nil {
			return nil, err
		}
		if e != nil {
			return q.attach(cv, req, *e)
		}
	}
	if p := openApproval(st); p != nil {
		return nil, errPendingApproval(p, st)
	}
	if p := openQuestion(st); p != nil {
		return q.reply(cv, req, p)
	}
	if busy && !cv.queues {
		return nil, errBusy(line)
	}
	drafts, err := q.drafts(cv, req)
	if err != nil {
		return nil, err
	}
	if !busy && !cv.queues {
		drafts[len(drafts)-1].Expect = &chat.Expected{}
	}
	events, err := q.opt.Sessions.Append(q.ctx, q.caller, cv.session, drafts)
	if chat.CodeOf(err) == chat.Conflict && chat.ReasonOf(err) != chat.SessionChanged {
		switch e, failed := q.repliedBefore(cv, req); {
		case failed != nil:
			return nil, failed
		case e != nil:
			return q.attach(cv, req, *e)
		}
	}
	if err != nil {
		return nil, errNotStored(otid, err)
	}
	return q.attach(cv, req, events[len(events)-1])
}

// checkSend refuses requests that cannot be done in a conversation.
func (q *request) checkSend(cv *conversation, req *sendRequest) error {
	if cv.answerer == chat.NoAgent {
		return chat.Errorf(chat.Invalid, "this conversation has no agent that answers")
	}
	if req.model != "" {
		name, err := q.answererNamed(req.model)
		if err != nil {
			return err
		}
		if name != cv.answerer {
			return chat.Errorf(chat.Invalid, "override_model: a conversation is answered by one agent, and %q is another; begin a conversation with it", clip(req.model))
		}
	}
	if n := len(req.messages); req.approval == nil && req.messages[n-1].role == llm.Assistant {
		return chat.Errorf(chat.Invalid, "messages: the last one has the role assistant; end with a message for the agent to answer")
	}
	return nil
}

// errNotStored explains why a message was not stored.
func errNotStored(otid string, err error) error {
	if chat.ReasonOf(err) == chat.SessionChanged {
		return err
	}
	switch chat.CodeOf(err) {
	case chat.Conflict:
		return chat.Errorf(chat.Conflict, "the otid %q was used before for something else; a new message needs a new otid", clip(otid)).Because(err)
	case chat.TooLarge:
		return chat.Errorf(chat.TooLarge, "a message has at most %d KiB, not counting images that are stored as files; send it in parts", chat.MaxEvent>>10).Because(err)
	}
	return err
}

// errBusy refuses a message that comes while the agent works.
func errBusy(line *chat.Line) error {
	r := &refusal{error: chat.Errorf(chat.Conflict, "CONFLICT: the agent is answering another message of this conversation; wait for the run to end, follow it, or cancel it")}
	if line.Turn != nil {
		r.run = llm.RunID(line.Turn.ID)
	}
	return r
}

// drafts returns the drafts of a request's messages. Only the last one starts a turn.
func (q *request) drafts(cv *conversation, req *sendRequest) ([]chat.Draft, error) {
	var out []chat.Draft
	n := len(req.messages) - 1
	for i := range req.messages {
		if err := q.storeImages(cv.session, req.messages[i].content); err != nil {
			return nil, err
		}
		if i < n {
			out = append(out, historyDraft(req.messages[i]))
		}
	}
	last := req.messages[n]
	body := llm.UserBody(last.content, last.sender)
	o := req.options
	o.Said = last.said
	var err error
	if body.Context, err = messageContext(o, req.tools); err != nil {
		return nil, err
	}
	draft := chat.NewDraft(body).As(last.otid)
	draft.Via = via
	return append(out, draft), nil
}

// messageContext is the context of a message, nil when it is empty. Tools and system text are stored under the keys that
// agents read in every dialect.
func messageContext(o options, tools []chat.ClientTool) (json.RawMessage, error) {
	stored, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	if string(stored) == "{}" {
		stored = nil
	}
	b, err := json.Marshal(struct {
		Options json.RawMessage   `json:"letta,omitempty"` // llm.SaidKey
		Tools   []chat.ClientTool `json:"client_tools,omitempty"`
		System  string            `json:"system,omitempty"`
	}{stored, tools, o.System})
	if string(b) == "{}" {
		return nil, err
	}
	return b, err
}

// historyDraft is a message that agents can read and that starts no turn.
func historyDraft(m inputMessage) chat.Draft {
	msg := llm.Message{
		Role: m.role, Content: m.content, Name: m.said.Name, SenderID: m.sender, GroupID: m.said.GroupID, BatchItemID: m.said.BatchItemID, OTID: m.otid,
	}
	draft := chat.NewDraft(chat.Unknown{Name: llm.ImportedType, Payload: msg.AppendJSON(nil)}).As(m.otid)
	draft.Via = via
	return draft
}

// storeImages stores large images as files.
func (q *request) storeImages(id chat.SessionID, parts []llm.Part) error {
	for _, p := range parts {
		img, ok := p.(*llm.Image)
		if !ok || img.Source.Type != llm.SourceBase64 || len(img.Source.Data) <= attachment.MaxInline {
			continue
		}
		data, _, err := attachment.DecodeURL("data:;base64," + img.Source.Data)
		if err != nil {
			return &refusal{error: err, malformed: true}
		}
		f := attachment.NewFile("letta/", img.Source.MediaType, data)
		if err := q.files.Put(q.ctx, q.caller, id, []attachment.File{f}); err != nil {
			return err
		}
		img.Source = llm.ImageSource{Type: llm.SourceFile, FileID: f.Path, MediaType: f.MediaType, Detail: img.Source.Detail}
	}
	return nil
}

// sentWith returns the message or answer that the caller sent with an otid, nil when there is none.
func (q *request) sentWith(cv *conversation, otid string) (*chat.Event, error) {
	if otid == "" {
		return nil, nil
	}
	e, err := q.opt.Sessions.Sent(q.ctx, q.caller, cv.session, otid)
	if err != nil || e == nil {
		return nil, err
	}
	if _, ok := e.Body.(chat.UserMessage); !ok && chat.AnswerOf(e.Body) == "" {
		return nil, nil // a message that starts no turn
	}
	return e, nil
}

// repeated returns the message that the running turn answers, when the request sends the same message again.
func (q *request) repeated(cv *conversation, req *sendRequest, trigger chat.Seq) (*chat.Event, error) {
	drafts, err := q.drafts(cv, req)
	if err != nil {
		return nil, err
	}
	e, err := q.event(cv.session, trigger)
	if err != nil || !e.Actor.Same(q.caller.Actor) {
		return nil, err
	}
	if same, err := stores(&e, &drafts[len(drafts)-1]); err != nil || !same {
		return nil, err
	}
	return &e, nil
}

// stores reports whether an event has the content of a draft.
func stores(e *chat.Event, draft *chat.Draft) (bool, error) {
	err := draft.Normalize()
	return err == nil && e.Type == draft.Type && json.Same(e.Payload, draft.Payload), err
}

// attach returns a follower for a stored event: for a message, of the run that answers it; for an answer, of the rest of
// the run that asked.
func (q *request) attach(cv *conversation, req *sendRequest, e chat.Event) (*follower, error) {
	f := &follower{
		request: q, conv: cv, message: e.Seq, tokens: req.options.Tokens, summaries: req.options.Compaction, pings: req.pings, kinds: req.kinds,
	}
	var started *chat.Event
	var err error
	if _, ok := e.Body.(chat.UserMessage); ok {
		started, err = q.turnOfMessage(cv.session, e.Seq)
	} else {
		// The response with the question ended at the question. Events since then, such as the return of another tool of
		// the step, belong to this response.
		if f.after, err = q.questionPosition(cv, &e); err != nil {
			return f, err
		}
		started, err = q.turnStarted(cv.session, e.Turn)
		if err == nil && started == nil {
			err = chat.Errorf(chat.Conflict, "the answered question does not belong to a run; the answer is stored")
		}
	}
	if err != nil || started == nil {
		return f, err
	}
	f.run, err = q.runIn(cv, *started)
	return f, err
}

// questionPosition returns the last position of the question that an event answers.
func (q *request) questionPosition(cv *conversation, answer *chat.Event) (chat.At, error) {
	request := chat.AnswerOf(answer.Body)
	for e, err := range q.opt.Sessions.Events(q.ctx, q.caller, cv.session, chat.Range{
		Before: answer.Seq, Desc: true, Workstream: &mainLine, Types: []string{
			chat.AgentApprovalRequest{}.Type(), chat.AgentInputRequest{}.Type(), chat.AgentPermissionRequest{}.Type(), chat.TurnStarted{}.Type(),
		},
	}) {
		if err != nil {
			return 0, err
		}
		if p, ok := chat.AsPrompt(&e); ok && p.RequestID == request {
			return e.At + core.AtStep - 1, nil
		}
		if e.Type == (chat.TurnStarted{}).Type() && e.Turn == answer.Turn {
			break // a question comes after the start of its turn
		}
	}
	return answer.At - 1, nil
}
