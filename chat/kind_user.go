package chat

import "github.com/parley-hq/parley/internal/json"

// UserMessage is a message of a person.
type UserMessage struct {
	Text    string          `json:"text"`
	Content []Part          `json:"content,omitempty"` // parts beside or instead of the text
	UserID  string          `json:"user_id,omitempty"`
	Context json.RawMessage `json:"context,omitempty"` // data of the page or program that sends the message
}

// Part is one element of the content of a message.
type Part struct {
	Type      string `json:"type"` // text, image, audio, video, file
	Text      string `json:"text,omitempty"`
	URL       string `json:"url,omitempty"`        // where it can be fetched, or a data: URL
	Path      string `json:"path,omitempty"`       // an artifact of the session
	MediaType string `json:"media_type,omitempty"` //
	Name      string `json:"name,omitempty"`
	Size      int64  `json:"size,omitempty"`
	Format    string `json:"format,omitempty"` // of audio, such as wav
	Detail    string `json:"detail,omitempty"` // of an image: the level of detail, for models that have one
}

// UserMessageWithdrawn withdraws a queued message.
type UserMessageWithdrawn struct {
	Sequence Seq `json:"sequence"`
}

// UserInputResponse answers an AgentInputRequest.
type UserInputResponse struct {
	RequestID string   `json:"request_id"`
	Text      string   `json:"text,omitempty"`
	Values    []string `json:"values,omitempty"`
}

// UserApprovalResponse answers an AgentApprovalRequest.
type UserApprovalResponse struct {
	RequestID string     `json:"request_id"`
	Decisions []Decision `json:"decisions"`
}

// Decision is the decision about one call.
type Decision struct {
	CallID   string          `json:"call_id"`
	Approve  bool            `json:"approve"`
	Reason   string          `json:"reason,omitempty"`
	Params   json.RawMessage `json:"params,omitempty"`   // edited arguments, when the person changed them
	Remember string          `json:"remember,omitempty"` // once (default) or session
	Result   json.RawMessage `json:"result,omitempty"`   // the result of the call, when the answering client has run it
	Error    string          `json:"error,omitempty"`    // why it failed there
	Stdout   []string        `json:"stdout,omitempty"`   // what the tool printed besides its result
	Stderr   []string        `json:"stderr,omitempty"`
}

// Ran reports whether the answering client has run the call already.
func (d *Decision) Ran() bool { return len(d.Result) > 0 || d.Error != "" }

// UserPermissionResponse answers an AgentPermissionRequest.
type UserPermissionResponse struct {
	RequestID string   `json:"request_id"`
	Granted   []string `json:"granted"`
	Denied    []string `json:"denied,omitempty"`
	Duration  string   `json:"duration,omitempty"` // once (default), session, always
}

// Type is the type on the wire.
func (UserMessage) Type() string            { return "user.message" }
func (UserMessageWithdrawn) Type() string   { return "user.message_withdrawn" }
func (UserInputResponse) Type() string      { return "user.input_response" }
func (UserApprovalResponse) Type() string   { return "user.approval_response" }
func (UserPermissionResponse) Type() string { return "user.permission_response" }

func (b UserMessage) check() error {
	if b.Text == "" && len(b.Content) == 0 {
		return Errorf(Invalid, "a user message needs text or content")
	}
	for i, p := range b.Content {
		switch p.Type {
		case "text":
			if p.Text == "" && p.URL == "" && p.Path == "" {
				return Errorf(Invalid, "content[%d]: a text part needs text", i)
			}
		case "image", "audio", "video", "file":
			if p.URL == "" && p.Path == "" {
				return Errorf(Invalid, "content[%d]: a part of type %s needs a path or a url", i, p.Type)
			}
		default:
			return Errorf(Invalid, "content[%d]: type %q is not one of text, image, audio, video, file", i, p.Type)
		}
	}
	return nil
}

// PlainText is the message's text, or the text of its parts.
func (b UserMessage) PlainText() string {
	if b.Text != "" {
		return b.Text
	}
	var s string
	for _, p := range b.Content {
		if p.Type == "text" && p.Text != "" {
			if s != "" {
				s += "\n"
			}
			s += p.Text
		}
	}
	return s
}

func (b UserMessageWithdrawn) check() error {
	if b.Sequence == 0 {
		return Errorf(Invalid, "sequence is missing: it names the message to withdraw")
	}
	return nil
}

func needsRequest(id string) error {
	if id == "" {
		return Errorf(Invalid, "an answer needs the request_id of the prompt it answers")
	}
	return nil
}

func (b UserInputResponse) check() error      { return needsRequest(b.RequestID) }
func (b UserPermissionResponse) check() error { return needsRequest(b.RequestID) }
func (b UserApprovalResponse) check() error   { return needsRequest(b.RequestID) }

// readUserMessage is quick with what most messages are: a text.
func readUserMessage(p json.RawMessage) (b UserMessage, err error) {
	f := json.Fields{Rest: p}
	for f.Next() {
		switch string(f.Key) {
		case "text":
			f.Text(&b.Text)
		case "user_id":
			f.Text(&b.UserID)
		default:
			f.Stop()
		}
	}
	if f.Done() {
		return b, nil
	}
	return plain[UserMessage](p)
}

func init() {
	register(readUserMessage)
	register(plain[UserMessageWithdrawn])
	register(func(p json.RawMessage) (b UserInputResponse, err error) {
		var old struct {
			Answer string `json:"answer"`
		}
		if err = object(p, &b); err == nil && b.Text == "" && lax(p, &old) {
			b.Text = old.Answer
		}
		return b, err
	})
	register(plain[UserApprovalResponse])
	register(plain[UserPermissionResponse])
}
