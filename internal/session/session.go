package session

import (
	"cmp"
	"context"
	"hash/maphash"
	"io"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// journal is the part of the log that this package uses.
type journal interface {
	Number(ctx context.Context, id chat.SessionID) (chat.Number, bool, error)
	SessionOf(ctx context.Context, n chat.Number) (chat.SessionID, error)
	Commit(ctx context.Context, c *core.Commit) error
	CommitLater(c *core.Commit, then core.CommitDone) (lead func(), err error)
	Load(ctx context.Context, id chat.SessionID) (*chat.State, error)
	Record(ctx context.Context, id chat.SessionID) (chat.Session, error)
	Read(ctx context.Context, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
	Get(ctx context.Context, id chat.SessionID, seq chat.Seq) (chat.Fact, error)
	ByClientID(ctx context.Context, id chat.SessionID, actor, clientID string) (core.Key, bool, error)
	Prompt(ctx context.Context, id chat.SessionID, requestID string) (core.PromptRef, bool, error)
	Ends(ctx context.Context, id chat.SessionID, seq chat.Seq) ([]chat.End, error)
	Deadlines(ctx context.Context) iter.Seq2[core.Deadline, error]
	Working(ctx context.Context) iter.Seq2[chat.SessionID, error]
	All(ctx context.Context) iter.Seq2[chat.Session, error]
	List(ctx context.Context, f core.Filter) (chat.SessionPage, error)
	Stored(ctx context.Context, workspace string, owner chat.Actor) (ofOwner, ofWorkspace int64, err error)
	SizeOf(ctx context.Context, id chat.SessionID) (bytes int64, err error)
	SetFiles(ctx context.Context, id chat.SessionID, bytes int64) error
	File(ctx context.Context, id chat.SessionID, path string) (chat.FileInfo, bool, error)
	Count(ctx context.Context, workspace string, member chat.Actor, owned bool, most int) (int, error)
	Alias(ctx context.Context, workspace, actor, foreign string) (chat.SessionID, bool, error)
	SetAlias(ctx context.Context, workspace, actor, foreign string, id chat.SessionID) (chat.SessionID, error)
	ReplaceAlias(ctx context.Context, workspace, actor, foreign string, id chat.SessionID) error
	BeginErase(ctx context.Context, id chat.SessionID, files int, bytes int64) (core.Erasure, error)
	Erasure(ctx context.Context, id chat.SessionID) (core.Erasure, bool, error)
	Erasures(ctx context.Context) iter.Seq2[core.Erasure, error]
	ScrubErased(ctx context.Context, e core.Erasure) error
	FinishErase(ctx context.Context, e core.Erasure) error
	Import(ctx context.Context, id chat.SessionID, facts iter.Seq2[chat.Fact, error]) error
	WritePreviews(ctx context.Context, all []core.SessionPieces)
}

// live sends events and previews to readers.
type live interface {
	Publish(id chat.SessionID, entries []core.Entry)
	Blocks(id chat.SessionID) []chat.Block
	Drop(id chat.SessionID, err error)
	Watch(ctx context.Context, id chat.SessionID, from core.Start, enc core.Encoding) iter.Seq2[core.Batch, error]
	Follow(ctx context.Context, id chat.SessionID, from core.Start, enc core.Encoding, sink core.Sink)
}

// artifacts are the files of sessions. They are removed with their session, copied
// to its forks, and merged when a workstream ends.
type artifacts interface {
	// Usage returns the number and the size of a session's files.
	Usage(ctx context.Context, id chat.SessionID) (count int, bytes int64, err error)
	DeleteSession(ctx context.Context, id chat.SessionID) (count int, bytes int64, err error)
	// Put stores a file and Remove removes one, as one change with a commit to the log:
	// if the commit fails, the file is as it was before.
	Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, w core.FileWrite) (chat.FileInfo, error)
	Remove(ctx context.Context, id chat.SessionID, path string, after chat.Seq, commit func(chat.FileInfo) error) error
	// FinishChanges completes or reverts changes that the last process did not finish.
	FinishChanges(ctx context.Context, stored func(core.FileChange) (bool, error)) error
	// CopySession copies all files of a session to a new one and adds others, as one
	// change with a commit to the log.
	CopySession(ctx context.Context, from, to chat.SessionID, added []core.FilePut, commit func() error) error
	// Merge adds the files of folders to another folder and returns their new paths. It
	// overwrites no file and may be repeated.
	Merge(ctx context.Context, id chat.SessionID, folders []string, into string) ([]string, error)
}

// Options of Sessions; the zero value works.
type Options struct {
	DefaultAgent string                              // agent of sessions created without one, until SetDefaultAgent; "" means demo
	MaxQueue     int                                 // messages that may wait for a turn to end; 0 means 100
	MaxCached    int                                 // sessions whose state is kept in memory; 0 means 20000
	Quotas       Quotas                              // limits of owners and workspaces
	Scarce       func() (reserve int64, scarce bool) // reports whether less than twice the disk's reserve is free; nil means never
	Refused      func(quota string)                  // called with the name of an exceeded quota; must not block
	OtherNodes   OtherNodes                          // the other nodes of a cluster; nil on a single server
	Artifacts    artifacts                           // the file store; nil means that there are no files
	Store        core.StoreFunc                      // stores data that is larger than attachment.MaxInline; nil means that it stays in the event
	Observers    []Observer                          // receive all changes; see also Observe
	Now          func() time.Time                    // nil means time.Now
	Logger       *slog.Logger                        // nil means no logging
}

func (o *Options) defaults() {
	o.DefaultAgent = cmp.Or(o.DefaultAgent, "demo")
	o.MaxQueue = cmp.Or(o.MaxQueue, 100)
	o.MaxCached = cmp.Or(o.MaxCached, 20000)
	o.Quotas.defaults()
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
	wake     chan struct{}          // signals Run that a deadline was set
	armed    atomic.Bool            // Run knows the deadlines of the workstreams of all sessions that this node owns
	dueTimes dueTimes               // of workstreams
	agent    atomic.Pointer[string] // the default agent

	erasures erasures
	openText openText
	shares   shares
	owners   owners
}

// shard holds the sequencers of the sessions whose ids have the same hash.
type shard struct {
	mu         sync.Mutex
	sequencers map[chat.SessionID]*sequencer
	applied    atomic.Uint64 // counts the records that Applied has replaced
}

// New returns the sessions stored in log. live sends changes to readers.
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

// DefaultAgent returns the agent of sessions that are created without one.
func (s *Sessions) DefaultAgent() string { return *s.agent.Load() }

// SetDefaultAgent sets the agent of sessions that are created without one from now on. It
// may be called at any time.
func (s *Sessions) SetDefaultAgent(name string) { s.agent.Store(&name) }

// acquire returns the sequencer of a session. It is not evicted until release is called.
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

// acquireCached is acquire for a cached session; it returns nil if the session is not
// cached.
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

// evict removes unused sequencers until there are fewer than most. The map's iteration
// order makes the choice random. If all are in use, the bound is exceeded temporarily.
func (sh *shard) evict(most int) {
	if len(sh.sequencers) < most {
		return
	}
	for id, r := range sh.sequencers {
		if r.users.Load() == 0 {
			if sess := r.session.Load(); sess != nil {
				r.setOpen(sess, 0) // load counts it again
			}
			delete(sh.sequencers, id)
			if len(sh.sequencers) < most {
				return
			}
		}
	}
}

func (s *Sessions) now() chat.At { return chat.AtOf(s.opt.Now()) }
