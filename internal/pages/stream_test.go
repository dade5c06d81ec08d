package pages_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/turnlog"
	"github.com/parley-hq/parley/internal/wire"
)

// viewFunc is a view that sends one line for each piece.
type viewFunc func(p *chat.Preview) (line string, done bool, err error)

func (f viewFunc) Append(dst []byte, entries []turnlog.Entry, _ bool) ([]byte, bool, error) {
	for i := range entries {
		if entries[i].Piece == nil {
			continue
		}
		line, done, err := f(entries[i].Piece)
		if dst = append(dst, line...); done || err != nil {
			return dst, done, err
		}
	}
	return dst, false, nil
}

var agent = chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "local"}, Scopes: []chat.Scope{chat.ScopeAdmin}}

// openStream starts a server with a session. follow begins a response with a view of the session.
func openStream(t *testing.T, view pages.View) (s *servertest.Server, follow func() *http.Response) {
	s = servertest.Open(t, servertest.Options{})
	chats := pages.New("test", pages.Options{Sessions: s.Sessions, Files: s.Files, Caller: s.Auth.Caller, Conns: s.Conns}, nil)
	s.Serve([]wire.Route{chats.HTTP.Route("GET /follow", func(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
		return chats.Stream(w, r, c, "s", func(_ context.Context, o pages.Opening) (pages.View, chat.Seq, error) {
			return view, 0, o.Write([]byte(": open\n\n"))
		})
	})})
	if _, _, err := s.Sessions.Create(t.Context(), agent, chat.NewSession{ID: "s", Agent: chat.NoAgent}); err != nil {
		t.Fatal(err)
	}
	return s, func() *http.Response { return s.Send("GET", "/follow", "") }
}

// One response that fails ends, broken off, and nothing else: neither the agent that has sent the piece nor the server.
func TestAResponseThatFailsIsBrokenOff(t *testing.T) {
	failures := map[string]viewFunc{
		"an error": func(p *chat.Preview) (string, bool, error) {
			return "", false, errors.New("this piece cannot be shown")
		},
		"a panic": func(p *chat.Preview) (string, bool, error) { panic("this piece cannot be shown") },
		"none":    func(p *chat.Preview) (string, bool, error) { return p.Text, p.Text == "two", nil },
	}
	for name, view := range failures {
		t.Run(name, func(t *testing.T) {
			s, follow := openStream(t, view)
			panics := make(chan any, 1)
			s.Conns.Panicked = func(v any, _ []byte) { panics <- v }
			res := follow()
			defer res.Body.Close()
			for i, text := range []string{"one", "two"} {
				if err := s.Sessions.Preview(t.Context(), agent, "s", []chat.Preview{{Block: "b", Offset: 3 * i, Text: text, Kind: chat.TextBlock}}); err != nil {
					t.Errorf("the agent was refused: %v", err)
				}
			}
			b, err := io.ReadAll(res.Body)
			if name == "none" {
				if err != nil || string(b) != ": open\n\nonetwo" {
					t.Errorf("%q %v", b, err)
				}
			} else if err == nil {
				t.Errorf("the response ended properly: %q", b)
			}
			if name == "a panic" {
				<-panics
			}
		})
	}
}

// roomView is a view that sends the text of each piece and notes the size of the buffers that it gets.
type roomView struct{ sizes chan int }

func (v roomView) Append(dst []byte, entries []turnlog.Entry, _ bool) ([]byte, bool, error) {
	for i := range entries {
		if p := entries[i].Piece; p != nil {
			v.sizes <- cap(dst)
			dst = append(dst, p.Text...)
		}
	}
	return dst, false, nil
}

// A server has many responses that wait, so one that has sent a long piece does not keep the memory for it.
func TestAResponseThatWaitsKeepsNoLongPiece(t *testing.T) {
	view := roomView{make(chan int, 10)}
	s, follow := openStream(t, view)
	res := follow()
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, len(": open\n\n"))); err != nil {
		t.Fatal(err)
	}
	offset := 0
	for _, text := range []string{"short", strings.Repeat("long", 4<<10), "short"} {
		if err := s.Sessions.Preview(t.Context(), agent, "s", []chat.Preview{{Block: "b", Offset: offset, Text: text, Kind: chat.TextBlock}}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(res.Body, make([]byte, len(text))); err != nil {
			t.Fatal(err)
		}
		if size := <-view.sizes; size > 4<<10 {
			t.Errorf("the response has kept %d bytes", size)
		}
		offset += len(text)
	}
}

// A page that does not read for a while gets the rest afterwards, as it was written.
func TestAPageThatDoesNotReadGetsTheRestLater(t *testing.T) {
	const blocks, pieces = 24, 32 // 12 MB, more than the connection holds
	text := strings.Repeat("0123456789abcdef", 1024)
	shown := 0
	view := viewFunc(func(p *chat.Preview) (string, bool, error) {
		shown++
		return string(p.Block) + p.Text + "\n", shown == blocks*pieces, nil
	})
	s, follow := openStream(t, view)
	res := follow()
	defer res.Body.Close()
	var want strings.Builder
	want.WriteString(": open\n\n")
	for b := range blocks {
		block := chat.BlockID(fmt.Sprint("b", b))
		for i := range pieces {
			if err := s.Sessions.Preview(t.Context(), agent, "s", []chat.Preview{{Block: block, Offset: i * len(text), Text: text, Kind: chat.TextBlock}}); err != nil {
				t.Fatal(err)
			}
			want.WriteString(string(block) + text + "\n")
		}
	}
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != want.String() {
		t.Errorf("%d of %d bytes, %v", len(b), want.Len(), err)
	}
}
