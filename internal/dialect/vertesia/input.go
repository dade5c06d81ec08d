package vertesia

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/retry"
	"github.com/parley-hq/parley/internal/text"
)

// userInput is the payload of UserInput and Stop.
type userInput struct {
	Message     string          `json:"message"`
	ClientID    string          `json:"client_message_id"`
	Metadata    json.RawMessage `json:"metadata"`
	Workstream  string          `json:"workstream_id"`
	Attachments []struct {
		Name string `json:"filename"`
		Type string `json:"content_type"`
		Size int64  `json:"size"`
		URL  string `json:"download_url"`
	} `json:"attachments"`
}

// workstreamIn is the workstream that an input to a run is for.
func (in *userInput) workstreamIn(sess run) string {
	if in.Workstream != "" && in.Workstream != mainLine {
		return in.Workstream
	}
	return sess.workstream
}

// inputMetadata are the parts of an input's metadata that name a prompt.
type inputMetadata struct {
	Answer   *requestRef    `json:"request_input_response"`
	Approval *approvalReply `json:"tool_approval_response"`
}

// userInput answers the prompt that the input names or that is open on its
// workstream; without one the input is a new message.
func (d *Dialect) userInput(ctx context.Context, c chat.Caller, sess run, in userInput) (string, error) {
	var meta inputMetadata
	if in.Metadata = truthy(in.Metadata); in.Metadata != nil {
		if err := edge.Decode(in.Metadata, &meta); err != nil {
			return "", err
		}
	}
	workstream := in.workstreamIn(sess)
	st, err := d.opt.Sessions.State(ctx, c, sess.ID)
	if err != nil {
		return "", err
	}
	request := promptOf(st, meta, workstream)
	if e, err := d.opt.Sessions.Sent(ctx, c, sess.ID, clientID(in.ClientID)); err != nil {
		return "", err
	} else if e != nil {
		request = chat.AnswerOf(e.Body) // an answer or a message is sent again; the message may be the one that asks
	}
	if request != "" {
		return d.answer(ctx, c, sess.ID, request, in, meta.Approval)
	}
	if workstream != "" {
		_, err := d.opt.Sessions.MessageWorkstream(ctx, c, sess.ID, workstream, chat.Steering{Text: in.Message, ClientID: clientID(in.ClientID)})
		return "The message was received.", err
	}
	return d.userMessage(ctx, c, sess, in)
}

// promptOf is the request id of the prompt that an input answers, "" for none.
func promptOf(st *chat.State, meta inputMetadata, workstream string) string {
	if meta.Answer != nil && meta.Answer.RequestID != "" {
		return meta.Answer.RequestID
	}
	if meta.Approval != nil && meta.Approval.Key != "" {
		key := meta.Approval.Key
		for _, p := range st.Prompts { // the request id of a posted prompt may differ from the id of its call
			if p.Approval != nil && slices.ContainsFunc(p.Approval.Calls, func(a chat.ApprovalCall) bool { return a.CallID == key }) {
				return p.RequestID
			}
		}
		return key
	}
	for _, p := range slices.Backward(st.Prompts) { // clients show the last one
		if p.Workstream == workstream {
			return p.RequestID
		}
	}
	return ""
}

// answer answers a prompt. The same answer again, when the prompt has ended, is the first one.
func (d *Dialect) answer(ctx context.Context, c chat.Caller, id chat.SessionID, request string, in userInput, decided *approvalReply) (string, error) {
	a := chat.Answer{Text: in.Message, ClientID: clientID(in.ClientID)}
	p, err := d.opt.Sessions.Prompt(ctx, c, id, request)
	if err != nil {
		return "", err
	}
	if p != nil {
		choice := in.Message
		if decided != nil && decided.Decision != "" {
			if choice = decided.Decision; !slices.Contains(decisions, choice) {
				return "", chat.Errorf(chat.Invalid, "tool_approval_response.decision %q is not one of %s", text.Clip(choice, 40), strings.Join(decisions, ", "))
			}
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
				granted, a.Duration = p.Permission.Scopes, cmp.Or(dec.Remember, "once")
			}
			a.Granted = &granted
		case p.Input != nil && len(p.Input.Options) > 0 && p.Input.InputType != chat.InputCheckbox:
			a.Text, a.Values = "", []string{in.Message}
		}
	}
	_, err = d.opt.Sessions.Answer(ctx, c, id, request, a)
	return "The question was answered.", err
}

// decisionOf reads the choice of an approval. A text that is not a choice is a
// denial with the text as its reason, so that no tool runs by mistake.
func decisionOf(call, choice, reason string) chat.Decision {
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
	return chat.Decision{CallID: call, Reason: text.Clip(reason, 2000)}
}

// userMessage appends a message with the attachments that were not sent to the
// agent yet.
func (d *Dialect) userMessage(ctx context.Context, c chat.Caller, sess run, in userInput) (reply string, err error) {
	defer d.lock.Lock(string(sess.ID))()
	err = retry.WhileChanged(ctx, func() error {
		reply, err = d.messageOnce(ctx, c, sess, in)
		return err
	})
	return reply, err
}

func (d *Dialect) messageOnce(ctx context.Context, c chat.Caller, sess run, in userInput) (string, error) {
	body := chat.UserMessage{Text: in.Message, Context: in.Metadata}
	for _, a := range in.Attachments {
		body.Content = append(body.Content, chat.Part{Type: "file", URL: a.URL, Name: a.Name, MediaType: a.Type, Size: a.Size})
	}
	files, err := d.attachmentsOf(ctx, c, sess.ID)
	if err != nil {
		return "", err
	}
	parts := files.consume(d.now(), nil)
	body.Content = append(body.Content, parts...)
	drafts := []chat.Draft{chat.NewDraft(body).As(clientID(in.ClientID))}
	if parts != nil {
		drafts = append(drafts, files.draft())
	}
	err = d.append(ctx, c, sess.ID, drafts...)
	if err == nil {
		return "The message was received.", nil
	}
	// A repeated message has other attachments: the first one sent them.
	if repeated, err := d.repeated(ctx, c, sess.ID, err, in.Message); err != nil || repeated {
		return "The message was received before.", err
	}
	return "", err
}

// repeated reports whether a message was refused because its client id was used
// for the same text before.
func (d *Dialect) repeated(ctx context.Context, c chat.Caller, id chat.SessionID, refused error, message string) (bool, error) {
	if chat.ReasonOf(refused) != chat.ClientIDReused {
		return false, nil
	}
	seq, _ := chat.Public(refused).Details["sequence"].(chat.Seq)
	e, err := d.opt.Sessions.Event(ctx, c, id, seq)
	m, ok := e.Body.(chat.UserMessage)
	return ok && m.Text == message, err
}
