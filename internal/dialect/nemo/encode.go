package nemo

import (
	"bytes"
	"cmp"
	"crypto/sha256"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// eventUUID is the id of an event as a UUID, the form of NeMo's ids.
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

// derivedID is the id of something without an event of its own. It is the same for every reader and after a restart.
func derivedID(scope, name string) string {
	sum := sha256.Sum256([]byte(scope + "\x00" + name))
	id := chat.ID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.UUID()
}

// encoder turns the items of one conversation into the frames of one client.
type encoder struct {
	*schema
	conversation string // the client's name of the conversation
	thread       string // the client's first thread_id, or "default"
}

// threadID is the thread_id of the frames of a turn.
func (e *encoder) threadID(t *turn) string {
	name := e.thread
	if t != nil {
		name = cmp.Or(t.thread, name)
	}
	if name == placeholder && !e.schema.hasConversation {
		return e.conversation // no other field has it
	}
	return name
}

func (e *encoder) head(typ string, t *turn, id string, at chat.At) head {
	h := head{Type: typ, ID: id, Thread: e.threadID(t), Parent: placeholder, Timestamp: at.String()}
	if e.schema.hasConversation {
		h.Conversation = e.conversation
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

// appendItem appends the JSON of an item; nothing when the schema has no frame for it.
func (e *encoder) appendItem(dst []byte, it *item, now chat.At) []byte {
	switch it.kind {
	case itemText:
		return e.appendText(dst, it)
	case itemStep:
		h := e.head(typeStep, it.turn, it.id, it.at)
		h.StepParent, h.Status = placeholder, "in_progress"
		if e.hasUpdateID {
			h.Update = placeholder
		}
		if !e.stepsUnderUser {
			h.Parent = cmp.Or(it.parent, "root")
		}
		h.Content = stepContent{Name: it.name, Payload: payload(it.text)}
		return appendJSON(dst, h)
	case itemNotice:
		if e.wholeTexts {
			notice := *it
			notice.text = inputRequest(it.notice).Text
			return e.appendText(dst, &notice)
		}
		return e.appendPrompt(dst, &openPrompt{Prompt: *it.notice, uuid: it.id, turn: it.turn}, now)
	case itemError:
		return e.appendError(dst, it.turn, it.id, it.err, it.at)
	case itemEnd:
		return e.appendEnd(dst, it.turn, it.id, it.outcome, it.at)
	case itemTrace:
		if !e.hasTrace {
			return dst
		}
		h := e.head(typeTrace, it.turn, it.id, it.at)
		h.Thread, h.Version = "", nil
		h.Content = traceContent{it.text}
		return appendJSON(dst, h)
	}
	return dst
}

func (e *encoder) appendText(dst []byte, it *item) []byte {
	h := e.head(typeResponse, it.turn, it.id, it.at)
	h.Content, h.Status = textContent{&it.text}, "in_progress"
	return appendJSON(dst, h)
}

func (e *encoder) appendEnd(dst []byte, t *turn, id string, outcome chat.Outcome, at chat.At) []byte {
	h := e.head(typeResponse, t, id, at)
	h.Content, h.Status = textContent{}, e.complete
	if outcome == chat.Failed || outcome == chat.Interrupted {
		h.Status = e.failed
	}
	return appendJSON(dst, h)
}

func (e *encoder) appendError(dst []byte, t *turn, id string, problem errorContent, at chat.At) []byte {
	h := e.head(typeError, t, id, at)
	h.Content, h.Status = e.convertError(problem), e.errorStatus
	return appendJSON(dst, h)
}

// appendJSON appends v as JSON, without escapes for < > &.
func appendJSON(dst []byte, v any) []byte {
	b := bytes.NewBuffer(dst)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("nemo: a frame cannot be written as JSON: " + err.Error()) // a bug: all its types can
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// codes are the protocol's codes of errors.
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

// errorOf is an error as clients see it.
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
