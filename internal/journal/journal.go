package journal

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/chat"
)

// Journal is an open store. See the package comment for what it promises.
type Journal struct {
	opt       Options
	dir       string
	db        *pebble.DB
	readOnly  bool
	metrics   *Metrics
	inventory *inventory
	stored    counters // bytes of owners and workspaces
	previews  *previews
	groups    groups
	losses    []Damage // found at the start

	seed        maphash.Seed
	shards      [shardCount]shard
	commitLocks [16384]sync.Mutex // by session: held during a commit
	createLocks [1024]sync.Mutex  // by number: held from the check that it is free to the commit
	alias       sync.Mutex        // held while an alias is read and written
	scrub       sync.Mutex        // held while an erasure rewrites files

	scrubbed map[chat.Number]bool // the files contain no text of it any more, the intention is still stored; guarded by scrub

	failure      atomic.Pointer[error]  // the log cannot be written any more
	background   atomic.Pointer[error]  // flushes or compactions fail at the moment
	stuck        chan error             // receives the first such failure during Open
	reported     atomic.Int64           // when the last such failure was reported
	low          atomic.Pointer[string] // why there is too little space, nil when there is enough
	scarce       atomic.Int64           // the reserve of the disk while less than twice of it is free, else 0
	unchecked    atomic.Int64           // bytes committed since the free space was looked at because of them
	engineLocked atomic.Bool            // Pebble was left with its locks held
	opened       atomic.Bool            // Pebble has started
	closing      atomic.Bool
	fatal        sync.Once
}

// Open opens the store in dir and creates it when there is none. It starts no
// goroutine of its own; call Run beside it.
func Open(dir string, opt Options) (*Journal, error) { return open(dir, opt, false) }

// OpenReadOnly opens a store that no process uses, to verify or read it. Nothing
// in dir is changed.
func OpenReadOnly(dir string, opt Options) (*Journal, error) { return open(dir, opt, true) }

func open(dir string, opt Options, readOnly bool) (j *Journal, err error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	j = &Journal{opt: opt.withDefaults(), dir: dir, readOnly: readOnly, metrics: newMetrics(), seed: maphash.MakeSeed()}
	for i := range j.shards {
		j.shards[i].init()
	}
	fs := j.opt.FS
	if info, err := fs.Stat(dir); err == nil && !info.IsDir() {
		return nil, chat.Errorf(chat.Invalid, "the data folder %s is a file: name a folder, or move the file away", dir)
	}
	if readOnly {
		if _, err := fs.Stat(fs.PathJoin(dir, "db")); err != nil {
			return nil, chat.Errorf(chat.NotFound, "there is no store in %s: name the data folder of a server", dir).Because(err)
		}
	} else {
		if err := makeFolder(fs, fs.PathJoin(dir, "db")); err != nil {
			return nil, openProblem(dir, err)
		}
	}
	if err := j.start(fs.PathJoin(dir, "db")); err != nil {
		return nil, openProblem(dir, err)
	}
	j.opened.Store(true)
	defer func() {
		if err != nil {
			err = errors.Join(err, j.db.Close(), j.inventory.close())
			j = nil
		}
	}()
	if err := j.checkFormat(); err != nil {
		if pebble.IsCorruptionError(err) {
			err = openProblem(dir, err)
		}
		return j, err
	}
	if !readOnly {
		if err := j.dropImports(); err != nil {
			err = fmt.Errorf("clean up after an import that did not end: %w", err)
			if pebble.IsCorruptionError(err) {
				err = openProblem(dir, err)
			}
			return j, err
		}
	}
	if j.previews, err = openPreviews(j); err != nil {
		return j, openProblem(dir, err)
	}
	if !readOnly {
		if err := j.finishErasures(context.Background()); err != nil {
			// The session is unreadable already; Run retries.
			j.opt.Logger.Error("an erasure could not be finished yet", "err", err)
		}
		j.checkSpace()
	}
	return j, nil
}

// start compares the files with the inventory and then opens Pebble.
func (j *Journal) start(db string) error {
	lock, err := pebble.LockDirectory(db, lockable(j.opt.FS, j.readOnly))
	if err != nil {
		return err
	}
	defer lock.Close() // Pebble keeps its own reference
	if j.inventory, err = openInventory(j.opt.FS, j.dir, j.opt.Logger, j.readOnly); err != nil {
		return err
	}
	if err = checkLogs(j.opt.FS, db); err == nil {
		j.db, err = j.openEngine(db, j.readOnly, lock)
	}
	if err != nil {
		return errors.Join(err, j.inventory.close())
	}
	return nil
}

// detailed is an error of Pebble whose detail names the file.
type detailed interface {
	error
	ErrorDetail() string
}

// tableNumber finds the number of the table in the text of a Pebble error.
var tableNumber = regexp.MustCompile(`(?:file|table|L\d:) (\d{6,})`)

// openProblem returns the error for the operator when a store cannot be opened.
func openProblem(dir string, err error) error {
	say := func(format string, args ...any) error {
		return chat.Errorf(chat.Unavailable, format, args...).Because(err)
	}
	if d, ok := errors.AsType[inventoryDamage](err); ok {
		return say("the store in %s is damaged: %v. The files %s and %s beside it list what must be there. Nothing was changed. Restore the last good backup into a new folder; or make a copy of this folder and accept the loss of what is missing with: parley verify --data DIR --accept", dir, d, inventoryFile, syncedFile)
	}
	switch {
	case errors.Is(err, syscall.EAGAIN), strings.Contains(err.Error(), "lock held by current process"):
		return say("the data folder %s is in use by another process: stop it, or name another folder", dir)
	case errors.Is(err, syscall.EROFS), errors.Is(err, os.ErrPermission):
		return say("the data folder %s cannot be written: give this user write permission, or name another folder", dir)
	case errors.Is(err, syscall.ENOSPC):
		return say("the disk of the data folder %s is full: free some space and start again", dir)
	case IsDamage(err):
		what := cleanText(err)
		if m := tableNumber.FindStringSubmatch(what); m != nil {
			what = "db/" + m[1] + ".sst: " + what
		}
		if d, ok := errors.AsType[detailed](err); ok {
			what += ", " + d.ErrorDetail()
		}
		return say("the store in %s is damaged (%s): restore the last good backup into a new folder", dir, what)
	}
	return say("the store in %s cannot be opened (%v): look at the cause, or name another folder", dir, err)
}

// IsDamage reports whether an error of Open means that files of the store are damaged or missing.
func IsDamage(err error) bool {
	if _, ok := errors.AsType[inventoryDamage](err); ok {
		return true
	}
	return err != nil && (pebble.IsCorruptionError(err) || strings.Contains(err.Error(), "object size mismatch") || strings.Contains(err.Error(), "unknown to the objstorage provider"))
}

// Lock locks a file for this process until it is closed. Other processes get an error.
func Lock(file string) (io.Closer, error) { return vfs.Default.Lock(file) }

// checkFormat refuses a store of another format before anything else is read.
func (j *Journal) checkFormat() error {
	v, err := j.get([]byte{kFormat})
	if err != nil {
		return err
	}
	if v == nil {
		if j.readOnly {
			return chat.Errorf(chat.NotFound, "the store in %s was never used", j.dir)
		}
		if err := j.guard(func() error { return j.db.Set([]byte{kFormat}, []byte{formatVersion}, pebble.Sync) }); err != nil {
			return err
		}
		// Pebble creates a store in its oldest format, whose log does not contain
		// how far it was synced, so that damage in it cannot be detected. The next
		// log file has the newest format.
		return j.db.Flush()
	}
	switch {
	case len(v) != 1 || v[0] > formatVersion:
		return chat.Errorf(chat.Unavailable, "the store in %s was written by a newer version of Parley (format %x, this version reads format %d): use that version, or another folder", j.dir, v, formatVersion)
	case v[0] < formatVersion:
		return chat.Errorf(chat.Unavailable, "the store in %s was written by an older version of Parley (format %d, this version reads format %d): export its sessions with that version and import them into a new folder", j.dir, v[0], formatVersion)
	}
	return nil
}

// Close ends Pebble's background work and closes the files. All other calls must
// have returned.
func (j *Journal) Close() error {
	j.closing.Store(true)
	err := j.previews.close()
	if j.engineLocked.Load() {
		// Closing would wait for locks that are never released.
		return errors.Join(err, j.failed())
	}
	return errors.Join(err, j.db.Close(), j.inventory.close(), j.failed())
}

// fail makes err final. It may be called several times, from any goroutine.
func (j *Journal) fail(err error) {
	wrapped := fmt.Errorf("the log in %s cannot be written: %w; acknowledged events are safe; check the disk and start again", j.dir, err)
	j.failure.CompareAndSwap(nil, &wrapped)
	for i := range j.shards {
		j.shards[i].settled.Broadcast() // nothing more will become durable
	}
	j.fatal.Do(func() { j.opt.Fatal(wrapped) })
}

// failed returns an error when the log has failed, else nil.
func (j *Journal) failed() error {
	if p := j.failure.Load(); p != nil {
		return chat.Errorf(chat.Unavailable, "the server cannot write its log any more and stops; try again when it has restarted").Because(*p)
	}
	return nil
}

// Writable returns an error while appends are refused: the disk has little free space, or a write has failed.
func (j *Journal) Writable() error {
	if err := j.failed(); err != nil {
		return err
	}
	if why := j.low.Load(); why != nil {
		j.metrics.refused.Inc()
		return chat.Errorf(chat.Unavailable, "%s", *why)
	}
	if p := j.background.Load(); p != nil {
		j.metrics.refused.Inc()
		return chat.Errorf(chat.Unavailable, "the server cannot write its tables to disk at the moment; it retries, try again in a while").Because(*p)
	}
	if j.readOnly {
		return chat.Errorf(chat.Unavailable, "the store is open for reading only")
	}
	return nil
}

// get returns a copy of a value, nil when the key does not exist.
func (j *Journal) get(key []byte) ([]byte, error) { return getFrom(j.db, key) }

func getFrom(r pebble.Reader, key []byte) ([]byte, error) {
	v, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read key %x: %w", key, err)
	}
	c := make([]byte, len(v)) // never nil, also for an empty value
	copy(c, v)
	return c, closer.Close()
}

// has reports whether a key exists.
func (j *Journal) has(key []byte) (bool, error) {
	v, err := j.get(key)
	return v != nil, err
}

// iter opens an iterator over all keys with a prefix.
func (j *Journal) iter(prefix []byte) (*pebble.Iterator, error) { return iterOf(j.db, prefix) }

func iterOf(r pebble.Reader, prefix []byte) (*pebble.Iterator, error) {
	from, to := span(prefix)
	return r.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
}

// commitFailure is the panic value of a failed sync, see engineLogger.
type commitFailure struct{ err error }

// guard runs a call that may write to Pebble's log. A panic of Pebble means that
// the log cannot be written; guard turns it into an error.
func (j *Journal) guard(write func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
			return
		case commitFailure:
			j.fail(r.err)
		case error:
			// Pebble could not write or rotate its log, and did not release a lock.
			j.engineLocked.Store(true)
			j.fail(r)
		default:
			j.engineLocked.Store(true)
			j.fail(fmt.Errorf("%v", r))
		}
		err = j.failed()
	}()
	if err := write(); err != nil {
		return err
	}
	return j.failed() // Pebble does not get the error, see logFS
}

// apply commits a batch to Pebble and, with SyncAlways, waits until it is on disk.
// Pebble can also wait in a second step, which would let commits of one session
// overlap. It is not used: the caller would be blocked twice, and a session decides
// its next commit only after the one before is durable.
func (j *Journal) apply(b *pebble.Batch) error {
	if j.opt.Sync != SyncAlways {
		return j.applyWith(b, pebble.NoSync)
	}
	return j.applyWith(b, pebble.Sync)
}

func (j *Journal) applyWith(b *pebble.Batch, o *pebble.WriteOptions) error {
	err := j.guard(func() error { return j.db.Apply(b, o) })
	if err == nil {
		return b.Close()
	}
	if j.failure.Load() == nil {
		j.fail(err)
	}
	return j.failed()
}

// write applies a batch and syncs it in every sync mode. It is for rare writes.
func (j *Journal) write(b *pebble.Batch) error {
	if err := j.apply(b); err != nil {
		return err
	}
	if j.opt.Sync != SyncAlways {
		return j.sync()
	}
	return nil
}

// sync syncs what was written without a sync.
func (j *Journal) sync() error {
	return j.guard(func() error { return j.db.LogData(nil, pebble.Sync) })
}
