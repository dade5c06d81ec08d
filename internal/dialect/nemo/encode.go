package nemo

import (
	"bytes"
	"crypto/sha256"
	"math"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// eventUUID is an event's id in the form that NeMo's ids have.
func eventUUID(id chat.EventID) string {
	if u, ok := chat.ParseID(chat.EventPrefix, string(id)); ok {
		return u.UUID()
	}
	return string(id)
}

func turnUUID(id chat.TurnID) string {
	if u, ok := chat.ParseID(chat.TurnPrefix, string(id)); ok {
		return u.UUID()
	}
	return string(id)
}

// derivedID names what has no event of its own. It is the same for every reader and
// after every restart.
func derivedID(scope, name string) string {
	sum := sha256.Sum256([]byte(scope + "\x00" + name))
	id := chat.ID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.UUID()
}

// encoder is how one client is spoken to in one conversation.
type encoder struct {
	*schema
	conversation string // its own name for the conversation
	thread       string // thread_id that it gave at first, or "default"
}

// threadID is the thread_id of frames of a turn.
func (v *encoder) threadID(t *turn) string {
	name := v.thread
	if t != nil && t.thread != "" {
		name = t.thread
	}
	if name == placeholder && !v.schema.hasConversation {
		return v.conversation // there is no other field for it
	}
	return name
}

func (v *encoder) head(typ string, t *turn, id string, at chat.At) head {
	h := head{Type: typ, ID: id, Thread: v.threadID(t), Parent: placeholder, Timestamp: at.String()}
	if v.schema.hasConversation {
		h.Conversation = v.conversation
	}
	if t != nil {
		h.Parent = t.parent
		if t.version != "" {
			version := schemaVersion
			h.Version = &version
		}
	}
	return h
}

// appendItem appends the JSON of an item; nothing when the schema has no word
// for it.
func (v *encoder) appendItem(dst []byte, it *item, now chat.At) []byte {
	switch it.kind {
	case itemText:
		return v.appendText(dst, it)
	case itemStep:
		h := v.head(typeStep, it.turn, it.id, it.at)
		h.StepParent, h.Status = placeholder, "in_progress"
		if v.hasUpdateID {
			h.Update = placeholder
		}
		switch {
		case v.stepsUnderUser:
		case it.parent != "":
			h.Parent = it.parent
		default:
			h.Parent = "root"
		}
		h.Content = stepContent{Name: it.name, Payload: payload(it.text)}
		return appendJSON(dst, h)
	case itemNotice:
		if v.wholeTexts {
			told := *it
			told.text = inputRequest(it.notice).Text
			return v.appendText(dst, &told)
		}
		return v.appendPrompt(dst, &openPrompt{Prompt: *it.notice, uuid: it.id, turn: it.turn}, now)
	case itemError:
		return v.appendError(dst, it.turn, it.id, it.err, it.at)
	case itemEnd:
		return v.appendEnd(dst, it.turn, it.id, it.outcome, it.at)
	case itemTrace:
		if !v.hasTrace {
			return dst
		}
		h := v.head(typeTrace, it.turn, it.id, it.at)
		h.Thread, h.Version = "", nil
		h.Content = traceContent{it.text}
		return appendJSON(dst, h)
	}
	return dst
}

// appendText is written by hand, because it stands on the path of every token.
func (v *encoder) appendText(dst []byte, it *item) []byte {
	dst = append(dst, `{"type":"system_response_message","id":`...)
	dst = chat.AppendString(dst, it.id)
	dst = append(dst, `,"thread_id":`...)
	dst = chat.AppendString(dst, v.threadID(it.turn))
	dst = append(dst, `,"parent_id":`...)
	dst = chat.AppendString(dst, it.turn.parent)
	if v.schema.hasConversation {
		dst = append(dst, `,"conversation_id":`...)
		dst = chat.AppendString(dst, v.conversation)
	}
	dst = append(dst, `,"content":{"text":`...)
	dst = chat.AppendString(dst, it.text)
	dst = append(dst, `},"status":"in_progress"`...)
	if it.turn.version != "" {
		dst = append(dst, `,"schema_version":"`+schemaVersion+`"`...)
	}
	dst = append(dst, `,"timestamp":"`...)
	dst = append(dst, it.at.String()...)
	return append(dst, '"', '}')
}

func (v *encoder) appendEnd(dst []byte, t *turn, id string, outcome chat.Outcome, at chat.At) []byte {
	h := v.head(typeResponse, t, id, at)
	h.Content, h.Status = textContent{}, v.complete
	if outcome == chat.Failed || outcome == chat.Interrupted {
		h.Status = v.failed
	}
	return appendJSON(dst, h)
}

func (v *encoder) appendError(dst []byte, t *turn, id string, e errorContent, at chat.At) []byte {
	h := v.head(typeError, t, id, at)
	h.Content, h.Status = v.errorForm(e), v.errorStatus
	return appendJSON(dst, h)
}

// appendJSON writes v without escaping < > &, which are plain text in JSON.
func appendJSON(dst []byte, v any) []byte {
	b := bytes.NewBuffer(dst)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("nemo: a frame cannot be written as JSON: " + err.Error()) // its types can
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// codes maps what went wrong to the protocol's codes.
var codes = map[chat.Code]string{
	chat.Invalid: codeMessage, chat.TooLarge: codeData, chat.Unauthenticated: codeAuth, chat.Denied: codeAuth,
	chat.NotFound: codeMessage, chat.Gone: codeMessage, chat.Conflict: codeMessage,
	chat.SlowDown: codeWorkflow, chat.Unavailable: codeWorkflow, chat.Internal: codeUnknown,
}

var codeTitles = map[string]string{
	codeUnknown: "Something went wrong", codeWorkflow: "The agent cannot answer now", codeMessage: "The message was not accepted",
	codeMessageType: "The message type was not accepted", codeContent: "User message content could not be found",
	codeData: "Input data not supported", codeAuth: "Authentication failed",
}

// errorOf words any error for a client.
func errorOf(err error) errorContent {
	e := chat.Public(err)
	code := codes[e.Code]
	if r, ok := err.(*refusal); ok {
		code = r.code
	}
	if code == "" {
		code = codeUnknown
	}
	return errorContent{Code: code, Message: codeTitles[code], Details: e.Msg}
}

// secondsLeft is a prompt's time in whole seconds, at least one; 0 means that
// it has none.
func secondsLeft(deadline, now chat.At) int {
	if deadline == 0 {
		return 0
	}
	return max(1, int(math.Round(float64(deadline-now)/1e6)))
}
