package record

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

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
	// WriteTime is how long after it was named a record may have no content, because another node may be writing it. A set
	// that is opened later deletes it.
	WriteTime time.Duration
	Logger    *slog.Logger
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

// tryAgain is the time after which Run tries again what the store could not do: in a cluster there may be no owner for some seconds.
const tryAgain = 2 * time.Second

// undeleted is the record of an erased conversation that could not be deleted yet.
type undeleted struct {
	set *Set
	id  string
}

// Run finishes what earlier processes began in any workspace, and deletes the records of erased conversations until ctx
// ends.
func (ss *Sets) Run(ctx context.Context) {
	again := time.NewTimer(0)
	defer again.Stop()
	opened := false
	var left []undeleted
	for {
		select {
		case id := <-ss.erased:
			if left = append(left, ss.deleteErased(ctx, string(id))...); len(left) > 0 {
				again.Reset(tryAgain)
			}
			continue
		case <-again.C:
		case <-ctx.Done():
			return
		}
		opened = opened || ss.openAll(ctx)
		left = slices.DeleteFunc(left, func(u undeleted) bool { return u.set.delete(ctx, u.id) })
		if !opened || len(left) > 0 {
			again.Reset(tryAgain)
		}
	}
}

// openAll opens the sets of all workspaces that have one. It returns false if it has to be tried again.
func (ss *Sets) openAll(ctx context.Context) bool {
	err := ss.openEach(ctx)
	switch {
	case err == nil || ctx.Err() != nil:
	case chat.CodeOf(err) == chat.Unavailable:
		ss.opt.Logger.InfoContext(ctx, "records cannot be read yet; trying again", "records", ss.opt.Name, "err", err)
		return false
	default:
		ss.opt.Logger.ErrorContext(ctx, "records cannot be read", "records", ss.opt.Name, "err", err)
	}
	return true
}

func (ss *Sets) openEach(ctx context.Context) error {
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

// deleteErased deletes the records of a conversation that was erased. It returns those that have to be tried again.
func (ss *Sets) deleteErased(ctx context.Context, id string) (left []undeleted) {
	ss.mu.Lock()
	all := slices.Collect(maps.Values(ss.all))
	ss.mu.Unlock()
	for _, s := range all {
		s.mu.Lock()
		rs := s.sessions[id]
		stays := rs == nil || rs.deleting
		s.mu.Unlock()
		if !stays && !s.delete(ctx, id) {
			left = append(left, undeleted{s, id})
		}
	}
	return left
}

// delete deletes the record of an erased conversation. It returns false if it has to be tried again.
func (s *Set) delete(ctx context.Context, id string) bool {
	err := s.Delete(ctx, id)
	if err == nil {
		return true
	}
	again := chat.CodeOf(err) == chat.Unavailable
	s.sets.opt.Logger.WarnContext(ctx, "the record of an erased conversation could not be deleted", "id", id, "again", again, "err", err)
	return !again
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
