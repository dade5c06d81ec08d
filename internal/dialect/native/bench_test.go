package native

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/servertest"
)

// BenchmarkAppend appends one event per request through the handler: decode, rules,
// store without sync, answer.
func BenchmarkAppend(b *testing.B) {
	w := newTestServer(b, nil)
	w.create("root", `{"id":"s","agent":"none"}`)
	handler := w.HTTP.Config.Handler
	body := say(strings.Repeat("x", 250))
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest("POST", "/parley/v1/sessions/s/events", strings.NewReader(body))
		r.Host = "127.0.0.1"
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+servertest.TokenOf("root"))
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		if rec.Code != http.StatusCreated {
			b.Fatal(rec.Code, rec.Body)
		}
	}
}

// BenchmarkEncode encodes an entry, as the hub does once per encoding.
func BenchmarkEncode(b *testing.B) {
	e := chat.Event{
		Session: "s-01JCQ0000000000000000000", Seq: 42, At: chat.AtOf(clock()), Type: "user.message", ID: "e-43DZRR9SXM840800000BPW8YC0",
		Actor: chat.Actor{Kind: chat.User, ID: "alice"}, Payload: fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", 250)),
	}
	fact := core.Entry{Session: e.Session, At: e.At, Fact: e.Fact(), Cursor: chat.Cursor{Seq: 42}}
	piece := core.Entry{Session: e.Session, At: e.At, Cursor: chat.Cursor{Seq: 42, Blocks: []chat.Mark{{Block: "b7", Bytes: 120}}},
		Piece: &chat.Preview{Block: "b7", Offset: 100, End: 120, Text: "twenty bytes of text", Kind: chat.TextBlock}}
	for _, enc := range []core.Encoding{sse{}, ws{}} {
		b.Run(strings.TrimPrefix(enc.Name(), "native/")+"/event", func(b *testing.B) {
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				dst = enc.AppendEvent(dst[:0], &fact)
			}
			b.SetBytes(int64(len(dst)))
		})
		b.Run(strings.TrimPrefix(enc.Name(), "native/")+"/piece", func(b *testing.B) {
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				dst = enc.AppendPiece(dst[:0], &piece)
			}
			b.SetBytes(int64(len(dst)))
		})
	}
}
