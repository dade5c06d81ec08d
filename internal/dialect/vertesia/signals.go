package vertesia

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// signalReply answers a signal.
type signalReply struct {
	Status     string `json:"status"`
	Message    string `json:"message"`
	Launch     string `json:"launch_id,omitempty"` // of the workstream that was launched
	Workstream string `json:"workstream_id,omitempty"`
}

// signal hands something to a run.
func (d *Dialect) signal(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	b, err := d.body(r)
	if err != nil {
		return err
	}
	sess, err := d.run(r, c)
	if err != nil {
		return err
	}
	reply, err := d.take(r.Context(), c, sess, r.PathValue("name"), b)
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, reply)
	return nil
}

// userInput is what a person says.
type userInput struct {
	Message     string          `json:"message"`
	ClientID    string          `json:"client_message_id"`
	Metadata    json.RawMessage `json:"metadata"`
	Attachments []attachment    `json:"attachments"`
	Workstream  string          `json:"workstream_id"`
}

type attachment struct {
	Name string `json:"filename"`
	Type string `json:"content_type"`
	Size int64  `json:"size"`
	URL  string `json:"download_url"`
}

// about is what of the metadata we understand.
type about struct {
	Answer   *requestRef    `json:"request_input_response"`
	Approval *approvalReply `json:"tool_approval_response"`
}

// take does what a signal asks for and says what that was.
func (d *Dialect) take(ctx context.Context, c chat.Caller, sess run, name string, payload json.RawMessage) (signalReply, error) {
	if reply, ok, err := d.workSignal(ctx, c, sess, name, payload); ok {
		return reply, err
	}
	said, err := d.runSignal(ctx, c, sess, name, payload)
	return signalReply{Status: "ok", Message: said}, err
}

// runSignal takes the signals that are not about workstreams. A name that we do not
// know is kept as a fact: agents may know it.
func (d *Dialect) runSignal(ctx context.Context, c chat.Caller, sess run, name string, payload json.RawMessage) (string, error) {
	switch name {
	case "UserInput":
		var in userInput
		if err := decodeSignal(name, payload, &in); err != nil {
			return "", err
		}
		return d.userInput(ctx, c, sess, in)
	case "Stop":
		var in userInput
		if len(payload) > 0 {
			if err := decodeSignal(name, payload, &in); err != nil {
				return "", err
			}
		}
		return d.stop(ctx, c, sess, in)
	case "FileUploaded", "FileRemoved", "FileBatchClosed":
		return d.fileSignal(ctx, c, sess, name, payload)
	case "ModelConfigChanged", "McpConfigChanged", "ToolApprovalModeChanged":
		return d.configure(ctx, c, sess, name, payload)
	case "TriggerCheckpoint":
		return d.checkpoint(ctx, c, sess)
	}
	if name == "" || len(name) > 128 {
		return "", chat.Errorf(chat.Invalid, "a signal's name has 1 to 128 bytes")
	}
	if len(payload) == 0 {
		payload = json.RawMessage("{}")
	}
	if err := wellFormed(payload); err != nil {
		return "", err
	}
	draft, err := ownDraft(typeSignal, map[string]any{"name": name, "payload": payload})
	if err != nil {
		return "", err
	}
	draft.Workstream = sess.line
	if _, err := d.opt.Sessions.Append(ctx, c, sess.ID, []chat.Draft{draft}); err != nil {
		return "", err
	}
	return "The signal was stored.", nil
}

func decodeSignal(name string, payload json.RawMessage, v any) error {
	if len(payload) == 0 || string(payload) == "null" {
		return chat.Errorf(chat.Invalid, "the signal %s needs a payload", name)
	}
	return decode(payload, v)
}

// key is a client's id as an idempotency key; a long one is none.
func key(clientID string) string {
	if len(clientID) > chat.MaxClientID {
		return ""
	}
	return clientID
}

// userInput answers the question it names, or the one that is open, or is a new
// message.
func (d *Dialect) userInput(ctx context.Context, c chat.Caller, sess run, in userInput) (string, error) {
	var meta about
	if truthy(in.Metadata) != nil {
		if err := json.Unmarshal(in.Metadata, &meta); err != nil {
			return "", malformed(err)
		}
	} else {
		in.Metadata = nil
	}
	line := sess.line
	if in.Workstream != "" && in.Workstream != MainLine {
		line = in.Workstream
	}
	st, err := d.opt.Sessions.State(ctx, c, sess.ID)
	if err != nil {
		return "", err
	}
	request := ""
	switch {
	case meta.Answer != nil && meta.Answer.RequestID != "":
		request = meta.Answer.RequestID
	case meta.Approval != nil && meta.Approval.Key != "":
		request = meta.Approval.Key
		for _, p := range st.Prompts { // one that was posted may have another name than its call
			if p.Approval != nil && slices.ContainsFunc(p.Approval.Calls, func(a chat.ApprovalCall) bool { return a.CallID == request }) {
				request = p.RequestID
				break
			}
		}
	default:
		// The last one asked on that line, as the client takes it, too.
		for _, p := range slices.Backward(st.Prompts) {
			if p.Workstream == line {
				request = p.RequestID
				break
			}
		}
	}
	if request != "" {
		return d.answer(ctx, c, st, request, in, meta.Approval)
	}
	if line != "" {
		return d.tellWorkstream(ctx, c, sess, line, in)
	}
	return d.say(ctx, c, sess, in)
}

// answer answers a prompt.
func (d *Dialect) answer(ctx context.Context, c chat.Caller, st *chat.State, request string, in userInput, decided *approvalReply) (string, error) {
	a := chat.Answer{Text: in.Message, ClientID: key(in.ClientID)}
	if p := st.Prompt(request); p != nil {
		choice := in.Message
		if decided != nil {
			choice = decided.Decision
		}
		switch {
		case p.Approval != nil:
			a.Text = ""
			for _, call := range p.Approval.Calls {
				a.Decisions = append(a.Decisions, decisionOf(call.CallID, choice, in.Message))
			}
		case p.Permission != nil:
			a.Text = ""
			granted := []string{}
			if dec := decisionOf("", choice, in.Message); dec.Approve {
				granted, a.Duration = p.Permission.Scopes, first(dec.Remember, "once")
			}
			a.Granted = &granted
		case p.Input != nil && len(p.Input.Options) > 0 && p.Input.InputType != chat.InputCheckbox:
			a.Text, a.Values = "", []string{in.Message}
		}
	}
	if _, err := d.opt.Sessions.Answer(ctx, c, st.Session.ID, request, a); err != nil {
		return "", err
	}
	return "The question was answered.", nil
}

// decisionOf reads a choice of an approval. What is none of the choices is a
// denial with a reason: nothing runs by a misunderstanding.
func decisionOf(call, choice, text string) chat.Decision {
	choice = strings.ToLower(strings.TrimSpace(choice))
	for _, o := range approvalOptions {
		if choice == strings.ToLower(o.Label) {
			choice = o.ID
		}
	}
	switch choice {
	case allowOnce, "allow", "approve", "approved", "yes":
		return chat.Decision{CallID: call, Approve: true}
	case allowForRun:
		return chat.Decision{CallID: call, Approve: true, Remember: "session"}
	case deny, "no", "denied":
		return chat.Decision{CallID: call}
	}
	return chat.Decision{CallID: call, Reason: clip(text, 2000)}
}

// say adds a message, with the files that have not reached the agent yet.
func (d *Dialect) say(ctx context.Context, c chat.Caller, sess run, in userInput) (string, error) {
	release := d.lock.hold(sess.ID)
	defer release()
	body := chat.UserMessage{Text: in.Message, Context: in.Metadata}
	for _, a := range in.Attachments {
		body.Content = append(body.Content, chat.Part{Type: "file", URL: a.URL, Name: a.Name, MediaType: a.Type, Size: a.Size})
	}
	files, err := d.filesOf(ctx, c, sess.ID)
	if err != nil {
		return "", err
	}
	parts := files.fresh(d.now(), nil)
	body.Content = append(body.Content, parts...)
	draft := chat.NewDraft(body).As(key(in.ClientID))
	draft.Via = via
	drafts := []chat.Draft{draft}
	if parts != nil {
		snapshot, err := ownDraft(typeFiles, files)
		if err != nil {
			return "", err
		}
		drafts = append(drafts, snapshot)
	}
	_, err = d.opt.Sessions.Append(ctx, c, sess.ID, drafts)
	if err == nil {
		return "The message was received.", nil
	}
	// A repeat differs from the first in the files, which went with that one.
	if again, look := d.repeated(ctx, c, sess.ID, err, in.Message); look != nil || again {
		return "The message was received before.", look
	}
	return "", err
}

// repeated reports whether a message was refused because it was said before.
func (d *Dialect) repeated(ctx context.Context, c chat.Caller, id chat.SessionID, refused error, text string) (bool, error) {
	if chat.ReasonOf(refused) != chat.ClientIDReused {
		return false, nil
	}
	seq, _ := chat.Public(refused).Details["sequence"].(chat.Seq)
	f, err := d.opt.Sessions.Event(ctx, c, id, seq)
	if err != nil {
		return false, err
	}
	e, err := f.Event()
	if err != nil {
		return false, err
	}
	m, ok := e.Body.(chat.UserMessage)
	return ok && m.Text == text, nil
}

// stop ends what runs. The end of the turn acknowledges it; where nothing runs
// that could end, a word of its own does.
func (d *Dialect) stop(ctx context.Context, c chat.Caller, sess run, in userInput) (string, error) {
	line := sess.line
	if in.Workstream != "" && in.Workstream != MainLine {
		line = in.Workstream
	}
	res, err := d.opt.Sessions.StopAs(ctx, c, sess.ID, line, clip(in.Message, 900), key(in.ClientID))
	if err != nil {
		return "", err
	}
	if res.TurnID != "" {
		d.await(ctx, c, sess.ID, func(st *chat.State) bool {
			t, _ := st.TurnOf(res.TurnID)
			return t == nil
		})
	}
	named, err := d.named(ctx, c, sess.ID, line, res.TurnID, in.ClientID)
	if err != nil {
		return "", err
	}
	if !named {
		draft, err := ownDraft(typeStopped, stoppedBody{in.Message, in.ClientID})
		if err != nil {
			return "", err
		}
		draft.Workstream = line
		if id := key(in.ClientID); id != "" {
			draft.ClientID = "stop:" + clip(id, 200)
		}
		if _, err := d.opt.Sessions.Append(ctx, c, sess.ID, []chat.Draft{draft}); err != nil {
			return "", err
		}
	}
	if !res.Stopped {
		return "Nothing was running.", nil
	}
	return "The run was stopped.", nil
}

// named reports whether the end of a turn will acknowledge a stop, or nobody waits
// for that. Who stops what somebody else is stopping already is told apart.
func (d *Dialect) named(ctx context.Context, c chat.Caller, id chat.SessionID, line string, turn chat.TurnID, ack string) (bool, error) {
	if ack == "" || turn == "" {
		return ack == "", nil
	}
	facts, _, err := d.opt.Sessions.Read(ctx, c, id, chat.Range{Types: []string{"turn.stop_requested"}, Limit: 1, Desc: true, Workstream: &line})
	if err != nil || len(facts) == 0 {
		return false, err
	}
	e, err := facts[0].Event()
	b, ok := e.Body.(chat.TurnStopRequested)
	return ok && b.TurnID == turn && b.Ack == ack, err
}

// patience is how long a request waits for a turn that was told to end.
const patience = 3 * time.Second

// await waits until a run is as it should be, for as long as our patience lasts.
func (d *Dialect) await(ctx context.Context, c chat.Caller, id chat.SessionID, fits func(*chat.State) bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for b, err := range d.opt.Sessions.Watch(ctx, c, id, chat.Start{}, nil) {
		if err != nil {
			return
		}
		if len(b.Entries) == 0 && !b.Live {
			continue
		}
		if st, err := d.opt.Sessions.State(ctx, c, id); err != nil || fits(st) {
			return
		}
	}
}

// terminate ends a run, or one line of it.
func (d *Dialect) terminate(ctx context.Context, c chat.Caller, sess run, reason string) error {
	reason = clip(first(reason, "terminated by a person"), 900)
	if sess.line != "" {
		return d.terminateWorkstream(ctx, c, sess, sess.line, reason)
	}
	if _, err := d.opt.Sessions.StopAll(ctx, c, sess.ID, reason); err != nil {
		return err
	}
	d.await(ctx, c, sess.ID, func(st *chat.State) bool { return !st.Busy() })
	if sess.once {
		// Its readers do so, too, and it is to end once.
		if err := d.settle(ctx, c, sess.ID); err != nil {
			return err
		}
	}
	var now agentRun
	if err := d.ended(ctx, c, &sess.Session, &now); err != nil {
		return err
	}
	if now.closer != nil && now.closer.Seq >= sess.Last {
		return nil // it had ended, or has by now
	}
	payload, err := marshal(map[string]any{"outcome": outcomeCancelled, "reason": reason, "by": c.Actor})
	if err != nil {
		return err
	}
	draft := chat.Draft{Type: chat.SessionCompleted{}.Type(), Payload: payload, Via: via}
	// That the caller may stop this run was checked above; ending it needs no more.
	_, err = d.opt.Sessions.Append(ctx, chat.Trusted, sess.ID, []chat.Draft{draft})
	return err
}
