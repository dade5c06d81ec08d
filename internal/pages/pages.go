// Package pages has what the dialects share whose clients are web pages with a list of messages of their own (AI SDK, AG-UI).
//
// Such a page names its conversation and its messages with ids of its own and repeats the whole list with each request. The id
// of the conversation is the caller's name of a session, and the id of a message its client_id. An edited message, or one that
// is answered again, begins a fork; an alias of the caller lets the page's id refer to the fork.
//
// The methods may be called by several goroutines at once.
package pages

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/keylock"
	"github.com/parley-hq/parley/internal/turnlog"
	"github.com/parley-hq/parley/internal/wire"
)

// Sessions is what these dialects use of the session layer.
type Sessions interface {
	attachment.Sessions
	turnlog.Sessions
	Follow(ctx context.Context, c chat.Caller, id chat.SessionID, from core.Start, enc core.Encoding, sink core.Sink)
	Own(ctx context.Context, c chat.Caller, foreign string) (chat.Session, error)
	Aliased(ctx context.Context, c chat.Caller, alias string) (chat.Session, error)
	AliasedHere(ctx context.Context, c chat.Caller, alias string) (chat.Session, error)
	Ensure(ctx context.Context, c chat.Caller, foreign string, n chat.NewSession) (chat.Session, bool, error)
	ReplaceAlias(ctx context.Context, c chat.Caller, alias string, id chat.SessionID) error
	ByID(ctx context.Context, c chat.Caller, id chat.ID) (chat.Session, chat.Seq, error)
	List(ctx context.Context, c chat.Caller, f core.Filter) (chat.SessionPage, error)
	State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	GetAt(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Session, error)
	Sent(ctx context.Context, c chat.Caller, id chat.SessionID, clientID string) (*chat.Event, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Answer(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string, a chat.Answer) (chat.Event, error)
	Update(ctx context.Context, c chat.Caller, id chat.SessionID, u chat.SessionUpdated) (chat.Session, error)
	Fork(ctx context.Context, c chat.Caller, id chat.SessionID, f chat.Fork) (chat.Session, error)
	Stop(ctx context.Context, c chat.Caller, id chat.SessionID, workstream, reason string) (chat.StopResult, error)
}

// Options of a dialect.
type Options struct {
	Sessions Sessions
	Files    attachment.Files
	Caller   func(*http.Request) (chat.Caller, error) // authenticates a request
	Conns    *wire.Conns                              // open streams
	Agents   func(workspace string) []string          // names of the agents of this server

	MaxBody     int64         // bytes of a JSON body; 0 means 8 MiB
	MaxArtifact int64         // bytes of an attachment; 0 means 1 GiB
	Heartbeat   time.Duration // silence after which a comment is sent; 0 means 15 s
	Logger      *slog.Logger
}

// Chats are the conversations of the pages of one dialect.
type Chats struct {
	Options
	HTTP *edge.HTTP

	via       string
	files     attachment.Store
	sendLocks keylock.Locks
}

// New returns the conversations of a dialect. via marks the events that come through it.
func New(via string, opt Options, encodeError edge.ErrorEncoder) *Chats {
	opt.MaxBody = cmp.Or(opt.MaxBody, edge.DefaultMaxBody)
	opt.Heartbeat = cmp.Or(opt.Heartbeat, 15*time.Second)
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	opt.Logger = opt.Logger.With("dialect", via)
	return &Chats{
		Options: opt, via: via, files: attachment.Store{Sessions: opt.Sessions, Files: opt.Files, Max: opt.MaxArtifact},
		HTTP: &edge.HTTP{Dialect: via, Caller: opt.Caller, MaxBody: opt.MaxBody, EncodeError: encodeError, Log: opt.Logger},
	}
}

// Lock lets one of several requests that send to a conversation decide at a time. The caller calls the returned function at the end.
func (s *Chats) Lock(c chat.Caller, name string) (unlock func()) {
	return s.sendLocks.Lock(c.In() + " " + c.Actor.Key() + " " + name)
}

// Find returns the session of a conversation: the fork that alias refers to, or the session that has the name.
func (s *Chats) Find(ctx context.Context, c chat.Caller, alias, name string) (chat.Session, error) {
	sess, err := s.Sessions.Aliased(ctx, c, alias)
	if chat.CodeOf(err) == chat.NotFound {
		sess, err = s.Sessions.Own(ctx, c, name)
	}
	return sess, err
}

// Asked waits until the prompts that a page answers are stored here: it may have seen them at another node of a cluster. Ids that name
// no prompt are left out.
func (s *Chats) Asked(ctx context.Context, c chat.Caller, id chat.SessionID, prompts iter.Seq[string]) error {
	last := chat.Seq(0)
	for p := range prompts {
		p, _, _ = strings.Cut(p, "/")
		if parsed, ok := chat.ParseID(chat.PromptPrefix, p); ok {
			_, seq, _ := parsed.Parts() // a fork has the same numbers
			last = max(last, seq)
		}
	}
	if last == 0 {
		return nil
	}
	_, err := s.Sessions.GetAt(ctx, c, id, last)
	return err
}

// Draft returns the draft of a message and the files to store before it. id is empty when there is no session yet.
func (s *Chats) Draft(ctx context.Context, c chat.Caller, id chat.SessionID, clientID string, body chat.UserMessage) (draft chat.Draft, files []attachment.File, err error) {
	if err := s.files.Resolve(ctx, c, id, body.Content); err != nil {
		return draft, nil, err
	}
	files = attachment.Extract(body.Content, attachment.Uploads)
	draft = chat.NewDraft(body).As(clientID)
	draft.Via = s.via
	err = edge.CheckSize(&draft)
	return draft, files, err
}

// Store stores a message with its files. If its client_id is that of a stored message, it returns that one.
func (s *Chats) Store(ctx context.Context, c chat.Caller, id chat.SessionID, draft chat.Draft, files []attachment.File) (*chat.Event, error) {
	if err := s.files.Put(ctx, c, id, files); err != nil {
		return nil, err
	}
	events, err := s.Sessions.Append(ctx, c, id, []chat.Draft{draft})
	if err != nil {
		return nil, err
	}
	return &events[0], nil
}

// Message returns what the caller sent with a client_id: a message, or a message that answered a question; nil when there is
// none. Messages of other clients have the id of their event.
func (s *Chats) Message(ctx context.Context, c chat.Caller, id chat.SessionID, clientID string) (*chat.Event, error) {
	e, err := s.Sessions.Sent(ctx, c, id, clientID)
	if parsed, ok := chat.ParseID(chat.EventPrefix, clientID); ok && e == nil && err == nil {
		_, seq, _ := parsed.Parts()
		e, err = s.byID(ctx, c, id, seq, clientID)
	}
	if err != nil || e == nil || e.Workstream != turnlog.MainLine {
		return nil, err
	}
	switch e.Body.(type) {
	case chat.UserMessage, chat.UserInputResponse:
		return e, nil
	}
	return nil, nil
}

// byID returns the event of a session with an id, nil when the id is that of another session's event. In a fork an event also has its
// id in the session that was copied; its number is the same.
func (s *Chats) byID(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq, eventID string) (*chat.Event, error) {
	e, err := s.Sessions.Event(ctx, c, id, seq)
	for copied, of := e, id; err == nil; {
		if string(copied.ID) == eventID {
			return &e, nil
		}
		var sess chat.Session
		if sess, err = s.Sessions.Get(ctx, c, of); err != nil || seq > sess.ForkedAt {
			break
		}
		of = sess.ForkedOf
		copied, err = s.Sessions.Event(ctx, c, of, seq)
	}
	if chat.CodeOf(err) == chat.NotFound {
		err = nil
	}
	return nil, err
}

// Parts returns the content of a message, without empty parts. The parts that are not text have an address that a page can load.
func Parts(id chat.SessionID, b chat.UserMessage) (parts []chat.Part) {
	if b.Text != "" {
		parts = append(parts, chat.Part{Type: "text", Text: b.Text})
	}
	for _, p := range b.Content {
		if p.Type == "text" && p.Text != "" {
			if b.Text == "" {
				parts = append(parts, chat.Part{Type: "text", Text: p.Text})
			}
			continue
		}
		if p.Path != "" {
			p.URL = attachment.URL(id, p.Path)
		}
		if p.URL != "" {
			parts = append(parts, p)
		}
	}
	return parts
}

// Fork returns a fork that ends before an event. The running turn is stopped, because the page leaves it.
func (s *Chats) Fork(ctx context.Context, c chat.Caller, sess *chat.Session, before chat.Seq, metadata json.RawMessage) (chat.Session, error) {
	if _, err := s.Sessions.Stop(ctx, c, sess.ID, turnlog.MainLine, "the message is answered anew in a fork"); err != nil {
		return chat.Session{}, err
	}
	return s.Sessions.Fork(ctx, c, sess.ID, chat.Fork{After: before - 1, Title: sess.Title, Agent: sess.Agent, Metadata: metadata})
}

// Stop stops the running turn of a session and answers as pages expect it.
func (s *Chats) Stop(ctx context.Context, c chat.Caller, id chat.SessionID) (any, error) {
	res, err := s.Sessions.Stop(ctx, c, id, turnlog.MainLine, "stopped in the page")
	return map[string]bool{"stopped": res.Stopped}, err
}

// Marshal encodes a value of a dialect, which can always be encoded.
func Marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("{}")
	}
	return b
}

// Report logs a response that failed by a fault of the server.
func (s *Chats) Report(ctx context.Context, id chat.SessionID, err error) {
	if ctx.Err() == nil && chat.CodeOf(err) == chat.Internal {
		s.Logger.ErrorContext(ctx, "a stream failed", "session", id, "err", err)
	}
}
