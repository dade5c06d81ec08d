package x1

import (
	"net/url"
	"strconv"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// headroom is what a message needs beside its data: headers, and the frame of a history reply.
const headroom = 1 << 10

// fit gives a stored event as it goes out in at most limit bytes: with the fields of both spellings; else as it is
// stored, which always fits the embedded NATS; else a reference to it. Every event goes out in some form, so that the
// events behind it can follow.
func fit(id chat.SessionID, f chat.Fact, limit int) ([]byte, error) {
	data, err := Encode(f)
	switch {
	case err == nil && len(data) <= limit:
		return data, nil
	case len(f.JSON) <= limit:
		return f.JSON, err
	}
	return referenceTo(id, f), err
}

// Reference is the payload of an event that is too large for NATS.
type Reference struct {
	Ref struct {
		Bytes int    `json:"bytes"` // of the event as it is stored
		URL   string `json:"url"`   // where it can be read, below the server's HTTP address
	} `json:"ref"`
}

// referenceTo gives an event's envelope with a reference instead of its payload.
func referenceTo(id chat.SessionID, f chat.Fact) []byte {
	e, err := f.Event()
	if err != nil {
		// Only its place is certain.
		e = chat.Event{Session: id, Seq: f.Seq, At: chat.AtOf(time.Now()), Type: "parley.unreadable"}
	}
	return reference(&e, len(f.JSON))
}

func reference(e *chat.Event, size int) []byte {
	out := *e
	var r Reference
	r.Ref.Bytes = size
	r.Ref.URL = "/parley/v1/sessions/" + url.PathEscape(string(e.Session)) + "/events?after=" + strconv.FormatUint(uint64(e.Seq)-1, 10) + "&limit=1"
	out.Payload, _ = json.Marshal(r) // texts and a number can be encoded
	return out.AppendJSON(nil)
}

// fitInput gives a user fact as it goes to a sidecar in at most limit bytes.
func fitInput(e *chat.Event, limit int) (data []byte, ok bool) {
	if data, ok = EncodeInput(e); !ok || len(data) <= limit {
		return data, ok
	}
	if data = e.AppendJSON(nil); len(data) <= limit {
		return data, true
	}
	return reference(e, len(data)), true
}
