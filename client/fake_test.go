package client

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

// serve runs a handler as a server and returns a client of it that does not
// wait long between attempts.
func serve(t *testing.T, h http.Handler, change ...func(*Options)) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	opt := Options{URL: srv.URL, Backoff: Backoff{Min: time.Microsecond, Max: time.Millisecond}, Retries: 50}
	for _, f := range change {
		f(&opt)
	}
	c, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		srv.CloseClientConnections()
		srv.Close()
	})
	return c
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, e *chat.Error) {
	answer(w, status, map[string]any{"error": map[string]any{"code": e.Code, "message": e.Msg, "details": e.Details}})
}

// entry is an event or a piece of a block.
type entry struct {
	event *chat.Event
	piece *chat.Preview
}

// sessionLog is the history of a session. A reader that connects at an entry gets the
// events that it lacks, the text of open blocks, and then the following entries.
type sessionLog []entry

// randomLog makes a random history: blocks of text in pieces, often two at the same time,
// and other events in between.
func randomLog(r *rand.Rand, events int) sessionLog {
	type block struct {
		id   chat.BlockID
		text string
	}
	var s sessionLog
	var open []*block
	begun := 0
	add := func(body chat.Body) {
		d := chat.NewDraft(body)
		if err := d.Normalize(); err != nil {
			panic(err)
		}
		seq := chat.Seq(1)
		for _, e := range s {
			if e.event != nil {
				seq++
			}
		}
		s = append(s, entry{event: &chat.Event{Session: "s-1", Seq: seq, At: chat.At(1e15) + chat.At(len(s)*16), Type: d.Type, Payload: d.Payload, Body: body}})
	}
	for n := 0; n < events; {
		switch k := r.IntN(10); {
		case k == 0:
			add(chat.UserMessage{Text: fmt.Sprintf("message %d", n)})
			n++
		case k == 1 && len(open) < 2:
			begun++
			open = append(open, &block{id: chat.BlockID(fmt.Sprintf("b%d", begun))})
		case k == 2 && len(open) > 0:
			i := r.IntN(len(open))
			add(chat.AgentText{Block: open[i].id, Text: open[i].text})
			open = append(open[:i], open[i+1:]...)
			n++
		case len(open) > 0:
			b := open[r.IntN(len(open))]
			text := []string{"wörd ", "日本", "x", "line\nbreak "}[r.IntN(4)]
			s = append(s, entry{piece: &chat.Preview{Block: b.id, Offset: len(b.text), End: len(b.text) + len(text), Text: text, Kind: chat.TextBlock}})
			b.text += text
		}
	}
	add(chat.SessionCompleted{})
	return s
}

// stream returns what a reader with a cursor receives when it connects at an entry and
// stays to the end.
func (s sessionLog) stream(at chat.Cursor, moment int) []byte {
	var b strings.Builder
	frame := func(kind, id, data string) {
		b.WriteString("event: " + kind + "\n")
		if id != "" {
			b.WriteString("id: " + id + "\n")
		}
		b.WriteString("data: " + data + "\n\n")
	}
	frame("hello", at.String(), fmt.Sprintf(`{"session_id":"s-1","last":%d,"server_now":"2026-11-15T10:00:00Z","cursor":%q}`, at.Seq, at.String()))
	event := func(e *chat.Event) {
		if e.Seq > at.Seq {
			at.PassEvent(e.Seq, chat.FinishedBlock(e.Body))
			frame("event", at.String(), string(e.AppendJSON(nil)))
		}
	}
	piece := func(p *chat.Preview) {
		at.PassPiece(p.Block, p.End)
		frame("preview", at.String(), string(p.AppendJSON(nil)))
	}
	texts := map[chat.BlockID]string{} // open at the moment
	var order []chat.BlockID
	for _, e := range s[:moment] {
		if e.event != nil {
			event(e.event)
			delete(texts, chat.FinishedBlock(e.event.Body))
			continue
		}
		if texts[e.piece.Block] == "" {
			order = append(order, e.piece.Block)
		}
		texts[e.piece.Block] += e.piece.Text
	}
	for _, id := range order {
		if have, text := at.Bytes(id), texts[id]; have < len(text) {
			piece(&chat.Preview{Block: id, Offset: have, End: len(text), Text: text[have:], Kind: chat.TextBlock})
		}
	}
	frame("ping", "", `{"server_now":"2026-11-15T10:00:00Z"}`)
	for _, e := range s[moment:] {
		if e.event != nil {
			event(e.event)
		} else {
			piece(e.piece)
		}
	}
	return []byte(b.String())
}

// reached returns the earliest entry at which a reader can have a cursor.
func (s sessionLog) reached(at chat.Cursor) int {
	moment := 0
	for i, e := range s {
		if e.event != nil && e.event.Seq <= at.Seq || e.piece != nil && e.piece.End <= at.Bytes(e.piece.Block) {
			moment = i + 1
		}
	}
	return moment
}

// cursorOf is the cursor of a request.
func cursorOf(r *http.Request) (chat.Cursor, error) {
	return chat.ParseCursor(r.URL.Query().Get("after"))
}
