package record

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// Erasable is the part of the session rules that sets need.
type Erasable interface {
	Sessions
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	Latest(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	Erase(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Receipt, error)
}

// Kind says how the records of a kind relate to the conversation that has the same id.
type Kind struct {
	OfSession     bool // the record is deleted when the conversation is erased
	ErasesSession bool // the conversation is erased when the record is deleted
}

// SetOptions configure the sets of one use.
type SetOptions struct {
	Sessions Erasable
	Name     string // begins the ids of the system sessions (sys-NAME-…) and the types of their events (NAME.record)
	Title    string // begins the titles of the system sessions
	Kinds    map[string]Kind

	// DeletedWith returns the ids of the records that are deleted with r, out of all. by asked for it, if that is known.
	DeletedWith func(r *Record, all []*Record, by []chat.Actor) []string
	// Opened is called once for each set, before it is used.
	Opened func(*Set)
	Logger *slog.Logger
}

// Sets are the records of all workspaces.
type Sets struct {
	opt    SetOptions
	erased chan chat.SessionID

	of sync.Map // the *Set of each record that is known, by the id of the record's session without its prefix

	mu  sync.Mutex
	all map[string]*Set
}

// maxErased bounds the erased conversations that wait for Run.
const maxErased = 1024

// NewSets returns the sets that are stored in the sessions.
func NewSets(opt SetOptions) *Sets {
	return &Sets{opt: opt, erased: make(chan chat.SessionID, maxErased), all: map[string]*Set{}}
}

// In returns the set of a workspace, up to date.
func (ss *Sets) In(ctx context.Context, workspace string) (*Set, error) {
	ss.mu.Lock()
	s := ss.all[workspace]
	if s == nil {
		s = newSet(ss, workspace)
		ss.all[workspace] = s
	}
	ss.mu.Unlock()
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.update(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Erased reports that a conversation was erased. Run deletes its record. It does not block: when too many wait, the
// record is deleted by the next process.
func (ss *Sets) Erased(id chat.SessionID) {
	if id.System() {
		return
	}
	select {
	case ss.erased <- id:
	default:
		ss.opt.Logger.Warn("too many conversations are erased at once; the record of this one is deleted at the next start", "session", id)
	}
}

// Published reports that a session has new events, also those of another node. It does not block.
func (ss *Sets) Published(id chat.SessionID) {
	name, ok := strings.CutPrefix(string(id), "sys-"+ss.opt.Name+"-")
	if !ok {
		return
	}
	if s, ok := ss.of.Load(name); ok {
		s.(*Set).changed.Store(name, true)
	}
}

// Run finishes what earlier processes began in any workspace, and deletes the records of erased conversations until ctx
// ends.
func (ss *Sets) Run(ctx context.Context) {
	if err := ss.openAll(ctx); err != nil && ctx.Err() == nil {
		ss.opt.Logger.ErrorContext(ctx, "records cannot be read", "records", ss.opt.Name, "err", err)
	}
	for {
		select {
		case id := <-ss.erased:
			ss.deleteErased(ctx, string(id))
		case <-ctx.Done():
			return
		}
	}
}

// openAll opens the sets of all workspaces that have one.
func (ss *Sets) openAll(ctx context.Context) error {
	s, err := ss.In(ctx, chat.DefaultWorkspace)
	if err != nil {
		return err
	}
	s.mu.Lock()
	workspaces := slices.Clone(s.workspaces)
	s.mu.Unlock()
	for _, workspace := range workspaces {
		if _, err := ss.In(ctx, workspace); err != nil {
			return err
		}
	}
	return nil
}

// deleteErased deletes the record of a conversation that was erased.
func (ss *Sets) deleteErased(ctx context.Context, id string) {
	ss.mu.Lock()
	all := slices.Collect(maps.Values(ss.all))
	ss.mu.Unlock()
	for _, s := range all {
		s.mu.Lock()
		rs := s.sessions[id]
		stays := rs == nil || rs.deleting
		s.mu.Unlock()
		if stays {
			continue
		}
		if err := s.Delete(ctx, id); err != nil {
			ss.opt.Logger.ErrorContext(ctx, "the record of an erased conversation could not be deleted; the next start tries again", "id", id, "err", err)
		}
	}
}

// register adds a workspace to the index of the default workspace, so that the next process finds its set.
func (ss *Sets) register(ctx context.Context, workspace string) error {
	s, err := ss.In(ctx, chat.DefaultWorkspace)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.update(ctx); err != nil || slices.Contains(s.workspaces, workspace) {
		return err
	}
	return s.note(ctx, entry{Kind: kindWorkspace, ID: workspace})
}
