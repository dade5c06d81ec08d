package session

import (
	"context"
	"hash/maphash"
	"io"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-hq/parley/chat"
)

// journal is all that the rules need of a log.
type journal interface {
	Number(ctx context.Context, id chat.SessionID) (chat.Number, bool, error)
	SessionOf(ctx context.Context, n chat.Number) (chat.SessionID, error)
	Commit(ctx context.Context, c *chat.Commit) error
	Load(ctx context.Context, id chat.SessionID) (*chat.State, error)
	Record(ctx context.Context, id chat.SessionID) (chat.Session, error)
	Read(ctx context.Context, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
	Get(ctx context.Context, id chat.SessionID, seq chat.Seq) (chat.Fact, error)
	ByClientID(ctx context.Context, id chat.SessionID, actor, clientID string) (chat.Key, bool, error)
	Prompt(ctx context.Context, id chat.SessionID, requestID string) (chat.PromptRef, bool, error)
	Ends(ctx context.Context, id chat.SessionID, seq chat.Seq) ([]chat.End, error)
	Deadlines(ctx context.Context) iter.Seq2[chat.Deadline, error]
	Working(ctx context.Context) iter.Seq2[chat.SessionID, error]
	All(ctx context.Context) iter.Seq2[chat.Session, error]
	List(ctx context.Context, f chat.Filter) (chat.SessionPage, error)
	Stored(ctx context.Context, workspace string, owner chat.Actor) (ofOwner, ofWorkspace int64, err error)
	SizeOf(ctx context.Context, id chat.SessionID) (bytes int64, err error)
	SetFiles(ctx context.Context, id chat.SessionID, bytes int64) error
	Count(ctx context.Context, workspace string, member chat.Actor, owned bool, most int) (int, error)
	Alias(ctx context.Context, workspace, actor, foreign string) (chat.SessionID, bool, error)
	SetAlias(ctx context.Context, workspace, actor, foreign string, id chat.SessionID) (chat.SessionID, error)
	ReplaceAlias(ctx context.Context, workspace, actor, foreign string, id chat.SessionID) error
	BeginErase(ctx context.Context, id chat.SessionID, files int, bytes int64) (chat.Erasure, error)
	Erasure(ctx context.Context, id chat.SessionID) (chat.Erasure, bool, error)
	Erasures(ctx context.Context) iter.Seq2[chat.Erasure, error]
	ScrubErased(ctx context.Context, e chat.Erasure) error
	FinishErase(ctx context.Context, e chat.Erasure) error
	Import(ctx context.Context, id chat.SessionID, facts iter.Seq2[chat.Fact, error]) error
	WritePreviews(ctx context.Context, id chat.SessionID, pieces []chat.Preview) error
}

// live sends what was written to readers.
type live interface {
	Publish(id chat.SessionID, entries []chat.Entry)
	Blocks(id chat.SessionID) []chat.Block
	Drop(id chat.SessionID, err error)
	Watch(ctx context.Context, id chat.SessionID, from chat.Start, enc chat.Encoding) iter.Seq2[chat.Batch, error]
	Follow(ctx context.Context, id chat.SessionID, from chat.Start, enc chat.Encoding, sink chat.Sink)
}

// artifacts are the files of sessions. They are removed with their session, copied
// to its forks, and merged when a workstream ends.
type artifacts interface {
	// Usage counts the files of a session.
	Usage(ctx context.Context, id chat.SessionID) (count int, bytes int64, err error)
	DeleteSession(ctx context.Context, id chat.SessionID) (count int, bytes int64, err error)
	// Put stores a file and Remove removes one, as one change with a commit to
	// the log: when that fails, all is as before.
	Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, w chat.FileWrite) (chat.FileInfo, error)
	Remove(ctx context.Context, id chat.SessionID, path string, after chat.Seq, commit func(chat.FileInfo) error) error
	// Settle ends changes that the last process left in the middle.
	Settle(ctx context.Context, stored func(chat.FileChange) (bool, error)) error
	// CopySession gives a new session all the files of another one, as one change
	// with a commit to the log.
	CopySession(ctx context.Context, from, to chat.SessionID, commit func() error) error
	// Merge lets the files of folders appear under another one as well, over
	// none that is there, and returns their paths. It may be repeated.
	Merge(ctx context.Context, id chat.SessionID, folders []string, into string) ([]string, error)
}

// Options of Sessions; the zero value works.
type Options struct {
	DefaultAgent string                              // answers sessions that name none, until SetDefaultAgent; "" means demo
	MaxQueue     int                                 // messages that may wait for a turn to end; 0 means 100
	MaxCached    int                                 // sessions whose state is kept in memory; 0 means 20000
	Quotas       Quotas                              // of owners and workspaces
	Scarce       func() (reserve int64, scarce bool) // whether less than twice the disk's reserve is free; nil means never
	Refused      func(quota string)                  // gets the name of a quota that refuses; must not block
	Artifacts    artifacts                           // nil means there are none
	Store        chat.StoreFunc                      // keeps data that is too large for an event; nil means it stays there
	Observers    []Observer                          // get what happens; see also Observe
	Now          func() time.Time                    // nil means time.Now
	Logger       *slog.Logger                        // nil means none
}

func (o *Options) defaults() {
	if o.DefaultAgent == "" {
		o.DefaultAgent = "demo"
	}
	o.Quotas.defaults()
	if o.MaxQueue == 0 {
		o.MaxQueue = 100
	}
	if o.MaxCached == 0 {
		o.MaxCached = 20000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Sessions reads and writes all sessions of a server.
type Sessions struct {
	log      journal
	live     live
	opt      Options
	seed     maphash.Seed
	shards   [64]shard
	wake     chan struct{}          // a deadline was set; holds one signal
	dueTimes dueTimes               // of workstreams
	agent    atomic.Pointer[string] // of sessions that name none

	erasures erasures
	openText openText
	shares   shares
	owners   owners
}

// shard keeps the sequencers of some sessions.
type shard struct {
	mu         sync.Mutex
	sequencers map[chat.SessionID]*sequencer
}

// New returns the sessions in log, with readers at live.
func New(log journal, live live, opt Options) *Sessions {
	opt.defaults()
	s := &Sessions{log: log, live: live, opt: opt, seed: maphash.MakeSeed(), wake: make(chan struct{}, 1)}
	s.SetDefaultAgent(opt.DefaultAgent)
	s.erasures.jobs = map[chat.SessionID]*erasing{}
	s.erasures.ctx, s.erasures.cancel = context.WithCancel(context.Background())
	for i := range s.shards {
		s.shards[i].sequencers = map[chat.SessionID]*sequencer{}
	}
	return s
}

// DefaultAgent names the agent of sessions that name none.
func (s *Sessions) DefaultAgent() string { return *s.agent.Load() }

// SetDefaultAgent names the agent of sessions that begin from now on and name
// none. It may be called at any time.
func (s *Sessions) SetDefaultAgent(name string) { s.agent.Store(&name) }

// acquire returns the sequencer of a session, which is not evicted until release is
// called.
func (s *Sessions) acquire(id chat.SessionID) *sequencer {
	sh := s.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.sequencers[id]
	if r == nil {
		sh.evict(max(1, s.opt.MaxCached/len(s.shards)))
		r = &sequencer{id: id, sessions: s}
		sh.sequencers[id] = r
	}
	r.users.Add(1)
	return r
}

// acquireCached is acquire for a session that is in memory; nil for any other.
func (s *Sessions) acquireCached(id chat.SessionID) *sequencer {
	sh := s.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.sequencers[id]
	if r != nil {
		r.users.Add(1)
	}
	return r
}

func (s *Sessions) shard(id chat.SessionID) *shard {
	return &s.shards[maphash.String(s.seed, string(id))%uint64(len(s.shards))]
}

// evict drops unused sequencers until there are fewer than most; map order
// makes the choice random enough. If all are in use the bound is exceeded for a
// while.
func (sh *shard) evict(most int) {
	if len(sh.sequencers) < most {
		return
	}
	for id, r := range sh.sequencers {
		if r.users.Load() == 0 {
			if sess := r.session.Load(); sess != nil {
				r.setOpen(sess, 0) // counted again when it is needed again
			}
			delete(sh.sequencers, id)
			if len(sh.sequencers) < most {
				return
			}
		}
	}
}

func (s *Sessions) now() chat.At { return chat.AtOf(s.opt.Now()) }
