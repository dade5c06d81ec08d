package letta

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

func (d *Dialect) sendToAgent(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	return d.sendTo(w, r, c, false, false)
}

func (d *Dialect) streamAgent(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	return d.sendTo(w, r, c, true, true)
}

// sendTo sends messages to an agent's default conversation. streaming and fixed are those of readSend.
func (d *Dialect) sendTo(w http.ResponseWriter, r *http.Request, c chat.Caller, streaming, fixed bool) error {
	req, err := d.readSend(r, streaming, fixed)
	if err != nil {
		return err
	}
	cv, err := d.defaultConversation(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return err
	}
	return d.sendAndRespond(w, r, c, cv, req)
}

func (d *Dialect) sendToConversation(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	req, err := d.readSend(r, true, false)
	if err != nil {
		return err
	}
	cv, err := d.conversation(r.Context(), c, r.PathValue("conversation"), cmp.Or(req.agentID, r.URL.Query().Get("agent_id")))
	if err != nil {
		return err
	}
	return d.sendAndRespond(w, r, c, cv, req)
}

// sendAndRespond sends messages and answers with the run, as a stream or whole.
func (d *Dialect) sendAndRespond(w http.ResponseWriter, r *http.Request, c chat.Caller, cv *conversation, req *sendRequest) error {
	f, err := d.send(r.Context(), c, cv, req)
	switch {
	case err != nil:
		return err
	case req.stream:
		return f.stream(w, r)
	}
	return f.whole(w, r)
}

// sendAsync sends messages and answers with the run.
func (d *Dialect) sendAsync(r *http.Request, c chat.Caller) (any, error) {
	ctx := r.Context()
	req, err := d.readSend(r, true, true) // accepts the fields that only streams use
	if err != nil {
		return nil, err
	}
	if err := d.checkCallback(req.callback); err != nil {
		return nil, err
	}
	req.options.Background = true
	cv, err := d.defaultConversation(ctx, c, r.PathValue("agent"))
	if err != nil {
		return nil, err
	}
	f, err := d.send(ctx, c, cv, req)
	if err != nil {
		return nil, err
	}
	if err := f.await(ctx, nil); err != nil {
		return nil, err
	}
	if err := d.addCallback(ctx, c, f.run, req.callback); err != nil {
		return nil, err
	}
	return d.runState(ctx, c, f.run)
}

// send stores the messages of a request and returns a follower of the run that answers them.
func (d *Dialect) send(ctx context.Context, c chat.Caller, cv *conversation, req *sendRequest) (*follower, error) {
	if err := d.checkSend(c, cv, req); err != nil {
		return nil, err
	}
	gate := d.gate(cv.session)
	gate.Lock()
	defer gate.Unlock()
	st, err := d.opt.Sessions.State(ctx, c, cv.session)
	if err == nil {
		err = c.May(&st.Session, chat.Answerer)
	}
	if err != nil {
		return nil, err
	}
	if req.approval != nil {
		return d.decide(ctx, c, cv, req, st)
	}
	otid := req.messages[len(req.messages)-1].otid
	line := st.Line(mainLine)
	busy := line.Turn != nil || len(line.Queue) > 0
	if busy {
		// A client that lost the answer sends the message again.
		e, err := d.sentWith(ctx, c, cv, otid)
		if err == nil && e == nil && otid == "" && req.retry && line.Turn != nil {
			e, err = d.repeated(ctx, c, cv, req, line.Turn.Trigger)
		}
		if err != nil {
			return nil, err
		}
		if e != nil {
			return d.attach(ctx, c, cv, req, *e)
		}
	}
	if p := openApproval(st); p != nil {
		return nil, errPendingApproval(p, st)
	}
	if p := openQuestion(st); p != nil {
		return d.reply(ctx, c, cv, req, p)
	}
	if busy && !cv.queues {
		return nil, errBusy(line)
	}
	drafts, err := d.drafts(ctx, c, cv, req)
	if err != nil {
		return nil, err
	}
	events, err := d.opt.Sessions.Append(ctx, c, cv.session, drafts)
	if err != nil {
		return nil, errNotStored(otid, err)
	}
	return d.attach(ctx, c, cv, req, events[len(events)-1])
}

// checkSend refuses requests that cannot be done in a conversation.
func (d *Dialect) checkSend(c chat.Caller, cv *conversation, req *sendRequest) error {
	if cv.answerer == chat.NoAgent {
		return chat.Errorf(chat.Invalid, "this conversation has no agent that answers")
	}
	if req.model != "" {
		name, err := d.answererNamed(c, req.model)
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
func (d *Dialect) drafts(ctx context.Context, c chat.Caller, cv *conversation, req *sendRequest) ([]chat.Draft, error) {
	var out []chat.Draft
	n := len(req.messages) - 1
	for i := range req.messages {
		if err := d.storeImages(ctx, c, cv.session, req.messages[i].content); err != nil {
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

// inlineImage is the size in base64 above which an image is stored as a file of the session.
const inlineImage = 32 << 10

// storeImages stores large images as files. The name of a file is a hash of its content, so a repeated message stores the
// same file again.
func (d *Dialect) storeImages(ctx context.Context, c chat.Caller, id chat.SessionID, parts []llm.Part) error {
	for _, p := range parts {
		img, ok := p.(*llm.Image)
		if !ok || img.Source.Type != llm.SourceBase64 || len(img.Source.Data) <= inlineImage {
			continue
		}
		if d.opt.Files == nil {
			return chat.Errorf(chat.TooLarge, "this server stores no files, and the image is too large to be stored without")
		}
		data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(img.Source.Data))
		if err != nil {
			return malformed("an image's data is not base64")
		}
		sum := sha256.Sum256(data)
		path := "letta/" + hex.EncodeToString(sum[:16])
		if err := d.opt.Sessions.MayStore(ctx, c, id, int64(len(data))); err != nil {
			return err
		}
		if _, err := d.opt.Files.Put(ctx, id, path, img.Source.MediaType, bytes.NewReader(data), d.opt.MaxArtifact); err != nil {
			return err
		}
		img.Source = llm.ImageSource{Type: llm.SourceFile, FileID: path, MediaType: img.Source.MediaType, Detail: img.Source.Detail}
	}
	return nil
}

// recentSent bounds the events that are searched for one that was sent before.
const recentSent = 1000

// sentWith returns the newest message or answer that the caller sent with an otid, nil when there is none.
func (d *Dialect) sentWith(ctx context.Context, c chat.Caller, cv *conversation, otid string) (*chat.Event, error) {
	if otid == "" {
		return nil, nil
	}
	for e, err := range d.opt.Sessions.Events(ctx, c, cv.session, chat.Range{
		Limit: recentSent, Desc: true, Workstream: &mainLine, Types: []string{
			chat.UserMessage{}.Type(), chat.UserApprovalResponse{}.Type(), chat.UserInputResponse{}.Type(), chat.UserPermissionResponse{}.Type(),
		},
	}) {
		if err != nil || e.ClientID == otid && e.Actor.Same(c.Actor) {
			return &e, err
		}
	}
	return nil, nil
}

// repeated returns the message that the running turn answers, when the request sends the same message again.
func (d *Dialect) repeated(ctx context.Context, c chat.Caller, cv *conversation, req *sendRequest, trigger chat.Seq) (*chat.Event, error) {
	drafts, err := d.drafts(ctx, c, cv, req)
	if err != nil {
		return nil, err
	}
	last := &drafts[len(drafts)-1]
	if err := last.Settle(); err != nil {
		return nil, err
	}
	e, err := d.event(ctx, c, cv.session, trigger)
	if err != nil || !e.Actor.Same(c.Actor) || e.Type != last.Type || !chat.SameJSON(e.Payload, last.Payload) {
		return nil, err
	}
	return &e, nil
}

// attach returns a follower for a stored event: for a message, of the run that answers it; for an answer, of the rest of
// the run that asked.
func (d *Dialect) attach(ctx context.Context, c chat.Caller, cv *conversation, req *sendRequest, e chat.Event) (*follower, error) {
	f := &follower{
		d: d, caller: c, conv: cv, message: e.Seq, tokens: req.options.Tokens, summaries: req.options.Compaction, pings: req.pings, kinds: req.kinds,
	}
	var started *chat.Event
	var err error
	if _, ok := e.Body.(chat.UserMessage); ok {
		started, err = d.turnOfMessage(ctx, c, cv.session, e.Seq)
	} else {
		// The response with the question ended at the question. Events since then, such as the return of another tool of
		// the step, belong to this response.
		if f.after, err = d.questionPosition(ctx, c, cv, &e); err != nil {
			return f, err
		}
		started, err = d.turnStarted(ctx, c, cv.session, e.Turn)
		if err == nil && started == nil {
			err = chat.Errorf(chat.Conflict, "the answered question does not belong to a run; the answer is stored")
		}
	}
	if err != nil || started == nil {
		return f, err
	}
	f.run, err = d.runIn(ctx, c, cv, *started)
	return f, err
}

// questionPosition returns the last position of the question that an event answers.
func (d *Dialect) questionPosition(ctx context.Context, c chat.Caller, cv *conversation, answer *chat.Event) (chat.At, error) {
	request := chat.AnswerOf(answer.Body)
	for e, err := range d.opt.Sessions.Events(ctx, c, cv.session, chat.Range{
		Before: answer.Seq, Desc: true, Workstream: &mainLine, Types: []string{
			chat.AgentApprovalRequest{}.Type(), chat.AgentInputRequest{}.Type(), chat.AgentPermissionRequest{}.Type(), chat.TurnStarted{}.Type(),
		},
	}) {
		if err != nil {
			return 0, err
		}
		if p, ok := chat.AsPrompt(&e); ok && p.RequestID == request {
			return e.At + chat.AtStep - 1, nil
		}
		if e.Type == (chat.TurnStarted{}).Type() && e.Turn == answer.Turn {
			break // a question comes after the start of its turn
		}
	}
	return answer.At - 1, nil
}
