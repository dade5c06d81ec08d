package x1

import (
	"net/url"
	"strconv"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// headroom is kept free in a message for headers and the frame of a history reply.
const headroom = 1 << 10

// fit returns a stored event in at most limit bytes: with the added fields of the
// protocol page, else as it is stored (which always fits the embedded NATS), else with a
// reference instead of its payload. So every event is published in some form.
func fit(id chat.SessionID, f chat.Fact, limit int) ([]byte, error) {
	data, err := encode(f)
	switch {
	case err == nil && len(data) <= limit:
		return data, nil
	case len(f.JSON) <= limit:
		return f.JSON, err
	}
	return referenceTo(id, f), err
}

// referencePayload is the payload of an event that is too large for NATS.
type referencePayload struct {
	Ref struct {
		Bytes int    `json:"bytes"` // of the event as it is stored
		URL   string `json:"url"`   // where it can be read, below the server's HTTP address
	} `json:"ref"`
}

// referenceTo returns an event with a reference instead of its payload.
func referenceTo(id chat.SessionID, f chat.Fact) []byte {
	e, err := f.Event()
	if err != nil {
		e = chat.Event{Session: id, Seq: f.Seq, At: chat.AtOf(time.Now()), Type: "parley.unreadable"}
	}
	return reference(&e, len(f.JSON))
}

func reference(e *chat.Event, size int) []byte {
	out := *e
	var r referencePayload
	r.Ref.Bytes = size
	r.Ref.URL = "/parley/v1/sessions/" + url.PathEscape(string(e.Session)) + "/events?after=" + strconv.FormatUint(uint64(e.Seq)-1, 10) + "&limit=1"
	out.Payload, _ = json.Marshal(r) // cannot fail
	return out.AppendJSON(nil)
}

// fitInput returns a user event for a sidecar in at most limit bytes.
func fitInput(e *chat.Event, limit int) (data []byte, ok bool) {
	if data, ok = EncodeInput(e); !ok || len(data) <= limit {
		return data, ok
	}
	if data = e.AppendJSON(nil); len(data) <= limit {
		return data, true
	}
	return reference(e, len(data)), true
}
