package native

import (
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
)

// maxFrameID bounds the id of a frame, which is echoed.
const maxFrameID = 256

// parseFrame reads a client's frame. Of a frame that cannot be read it returns the id
// with the error, so that the client can match the answer.
func parseFrame(msg []byte) (clientFrame, error) {
	if err := edge.CheckJSON(msg); err != nil {
		return clientFrame{}, err
	}
	f, ok := readFrame(msg)
	var err error
	if !ok {
		f, err = decodeFrame(msg)
	}
	if len(f.ID) > maxFrameID {
		f.ID = nil
		err = chat.Errorf(chat.Invalid, "the id of a frame has at most %d bytes", maxFrameID)
	}
	f.raw = msg
	return f, err
}

// decodeFrame reads a frame by reflection.
func decodeFrame(msg []byte) (clientFrame, error) {
	var f clientFrame
	err := json.Unmarshal(msg, &f)
	if err == nil {
		return f, nil
	}
	if len(f.ID) == 0 { // the id may come after the field that failed
		var head struct {
			ID json.RawMessage `json:"id"`
		}
		_ = json.Unmarshal(msg, &head) // the first error is reported
		f.ID = head.ID
	}
	return f, chat.Errorf(chat.Invalid, "the frame does not fit: %s", chat.JSONProblem(err)).Because(err)
}

// start is where a watch begins: after is a cursor's text, or a plain number.
func (f *clientFrame) start() (core.Start, error) {
	if len(f.After) == 0 || string(f.After) == "null" {
		return core.Start{}, nil
	}
	var text string
	if f.After[0] != '"' {
		text = string(f.After)
	} else if err := json.Unmarshal(f.After, &text); err != nil {
		return core.Start{}, chat.Errorf(chat.Invalid, "after is a cursor").Because(err)
	}
	c, err := chat.ParseCursor(text)
	if err != nil {
		return core.Start{}, err
	}
	return core.Start{Cursor: &c}, nil
}

// answer returns the field answer or, without it, the answer's fields in the frame itself.
func (f *clientFrame) answer() (chat.Answer, error) {
	if f.Answer != nil {
		return *f.Answer, nil
	}
	var a chat.Answer
	if err := json.Unmarshal(f.raw, &a); err != nil {
		return a, chat.Errorf(chat.Invalid, "the answer does not fit: %s", chat.JSONProblem(err)).Because(err)
	}
	return a, nil
}

// pieces returns the fields preview and previews or, without them, the piece in the
// frame itself.
func (f *clientFrame) pieces() ([]chat.Preview, error) {
	var pieces []chat.Preview
	if f.Preview != nil {
		pieces = append(pieces, f.Preview.preview())
	}
	for _, p := range f.Previews {
		pieces = append(pieces, p.preview())
	}
	if len(pieces) > 0 {
		return pieces, nil
	}
	var p previewBody
	if err := json.Unmarshal(f.raw, &p); err != nil {
		return nil, chat.Errorf(chat.Invalid, "the preview does not fit: %s", chat.JSONProblem(err)).Because(err)
	}
	if p.Block == "" {
		return nil, chat.Errorf(chat.Invalid, "there is nothing to show: send preview {block, offset, text}, or previews, an array of them")
	}
	return []chat.Preview{p.preview()}, nil
}

// drafts are what an append carries: an array, or one draft.
func (f *clientFrame) drafts() ([]chat.Draft, error) {
	if len(f.Events) == 0 {
		return nil, chat.Errorf(chat.Invalid, "there is nothing to append: send events, an array of drafts {type, payload}")
	}
	return chat.ParseDrafts(f.Events)
}
