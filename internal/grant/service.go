package grant

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/record"
	"github.com/parley-hq/parley/internal/text"
)

// via marks what came in by these routes.
const via = "x1"

// sessions is the part of the session rules that is used here.
type sessions interface {
	record.Sessions
	Resolve(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.SessionID, error)
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	Answer(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string, a chat.Answer) (chat.Event, error)
}

// files has the artifacts of sessions.
type files interface {
	Get(ctx context.Context, session chat.SessionID, path string) (io.ReadSeekCloser, chat.FileInfo, error)
}

// Options of a Service.
type Options struct {
	Sessions sessions
	Files    files
	Caller   func(*http.Request) (chat.Caller, error)
	MaxBody  int64        // 0 means the default of package edge
	Logger   *slog.Logger // nil means none
}

// Service stores and serves grants and shares. All methods may be called by several goroutines at once.
type Service struct {
	sessions sessions
	files    files
	http     edge.HTTP

	grants    record.Logs[*grants]
	shares    record.Logs[*shares]
	decisions backfill // permission answers, which become grants
	shared    backfill // agent.share events, which become shares
	committed chan chat.Event
}

// maxCommitted bounds the events that wait for Run.
const maxCommitted = 4096

// New returns a service. Run makes it follow the sessions.
func New(opt Options) *Service {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		sessions:  opt.Sessions,
		files:     opt.Files,
		http:      edge.HTTP{Dialect: via, Caller: opt.Caller, MaxBody: opt.MaxBody, Log: opt.Logger.With("dialect", via)},
		grants:    record.Logs[*grants]{Sessions: opt.Sessions, New: newGrants},
		shares:    record.Logs[*shares]{Sessions: opt.Sessions, New: newShares},
		committed: make(chan chat.Event, maxCommitted),
	}
	s.decisions = backfill{sessions: opt.Sessions, typ: chat.UserPermissionResponse{}.Type(), handle: func(ctx context.Context, e *chat.Event) error {
		_, err := s.grantDecision(ctx, e, "")
		if chat.CodeOf(err) == chat.NotFound {
			return nil // the request is not in the log
		}
		return err
	}}
	s.shared = backfill{sessions: opt.Sessions, typ: chat.AgentShare{}.Type(), handle: func(ctx context.Context, e *chat.Event) error {
		_, err := s.storeShare(ctx, e, e.Actor)
		return err
	}}
	return s
}

// Committed gets the events of every commit. It does not block: when too many events wait for Run, the grant or share
// is made when its session is next asked for.
func (s *Service) Committed(evs []chat.Event) {
	for i := range evs {
		switch evs[i].Body.(type) {
		case chat.UserPermissionResponse:
		case chat.AgentShare:
			if evs[i].Via == via && strings.HasPrefix(evs[i].ClientID, byHTTP) {
				continue // putShare makes it
			}
		default:
			continue
		}
		select {
		case s.committed <- evs[i]:
		default:
			s.http.Log.Warn("too many decisions and shares wait; this one is stored when its session is next asked for", "session", evs[i].Session, "sequence", evs[i].Seq)
		}
	}
}

// Run makes grants and shares of committed events until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	for {
		var e chat.Event
		select {
		case e = <-s.committed:
		case <-ctx.Done():
			return nil
		}
		var err error
		if _, ok := e.Body.(chat.AgentShare); ok {
			_, err = s.storeShare(ctx, &e, e.Actor)
		} else {
			_, err = s.grantDecision(ctx, &e, "")
		}
		if err != nil && ctx.Err() == nil {
			s.http.Log.WarnContext(ctx, "a decision or share could not be stored; it is stored when its session is next asked for", "session", e.Session, "sequence", e.Seq, "err", err)
		}
	}
}

// mayEnter returns an error when the caller has no access to a workspace.
func mayEnter(c chat.Caller, workspace string) error {
	if c.In() != workspace && !c.Administers(workspace) {
		return chat.Errorf(chat.NotFound, "there is no workspace %q, or it is not yours", text.Clip(workspace, 80))
	}
	if err := chat.SessionID(workspace).Validate(); err != nil {
		return chat.Errorf(chat.Invalid, "%q cannot be a workspace", text.Clip(workspace, 80))
	}
	return nil
}

// sessionIn returns a session of a workspace that the caller may see, by its id or alias.
func (s *Service) sessionIn(ctx context.Context, c chat.Caller, workspace string, id chat.SessionID) (chat.Session, error) {
	id, err := s.sessions.Resolve(ctx, c, id)
	if err != nil {
		return chat.Session{}, err
	}
	sess, err := s.sessions.Get(ctx, c, id)
	if err == nil && sess.Workspace != workspace {
		err = chat.Errorf(chat.NotFound, "there is no session %q in this workspace", text.Clip(string(id), 80))
	}
	return sess, err
}

// nameOf returns an actor without what only one request has.
func nameOf(a chat.Actor) chat.Actor { return chat.Actor{Kind: a.Kind, ID: a.ID, Name: a.Name} }

// maxBackfilled bounds the sessions for which a backfill knows how far it has read.
const maxBackfilled = 10_000

// backfill reads events that were committed but not handled, such as before a crash. It remembers how far it has read,
// so that a long log is read once.
type backfill struct {
	sessions sessions
	typ      string                                   // of the events
	handle   func(context.Context, *chat.Event) error // may get an event again

	mu   sync.Mutex
	upTo map[chat.SessionID]chat.Seq
}

// run handles the events of a session.
func (b *backfill) run(ctx context.Context, id chat.SessionID) error {
	sess, err := b.sessions.Get(ctx, chat.Trusted, id)
	if err != nil {
		return err
	}
	b.mu.Lock()
	after := b.upTo[sess.ID]
	b.mu.Unlock()
	if after >= sess.Last {
		return nil
	}
	for e, err := range b.sessions.Events(ctx, chat.Trusted, sess.ID, chat.Range{After: after, Types: []string{b.typ}}) {
		if err == nil {
			err = b.handle(ctx, &e)
		}
		if err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.upTo == nil || len(b.upTo) >= maxBackfilled {
		b.upTo = map[chat.SessionID]chat.Seq{}
	}
	b.upTo[sess.ID] = max(b.upTo[sess.ID], sess.Last)
	return nil
}
