package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/hub"
	"github.com/parley-hq/parley/journal"
	"github.com/parley-hq/parley/session"
)

// appendInProcess holds an append by the rules against one bare Set, both
// durable, in this process.
func appendInProcess(e *env) (lines []line, err error) {
	for i, writers := range []int{1, 64, 256} {
		l, err := appendWith(e, filepath.Join(e.temp, fmt.Sprintf("in-process-%d", i)), writers)
		if err != nil {
			return lines, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func appendWith(e *env, dir string, writers int) (l line, err error) {
	j, err := journal.Open(filepath.Join(dir, "ours"), journal.Options{})
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	sessions := session.New(j, hub.New(j, hub.Options{}), session.Options{DefaultAgent: "demo"})
	caller := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "u"}, Scopes: []chat.Scope{chat.ScopeUser}}
	ours := make([]func() error, writers)
	text := strings.Repeat("lorem ipsum ", 30)[:289]
	for w := range ours {
		sess, _, err := sessions.Create(e.ctx, caller, chat.NewSession{Agent: chat.NoAgent})
		if err != nil {
			return l, err
		}
		ours[w] = func() error {
			_, err := sessions.Append(context.Background(), caller, sess.ID, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: text})})
			return err
		}
	}

	db, err := pebble.Open(filepath.Join(dir, "bare"), bareOptions())
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	bare := make([]func() error, writers)
	value := []byte(strings.Repeat("v", 300))
	for w := range bare {
		var seq uint64
		bare[w] = func() error {
			seq++
			key := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{'E'}, uint64(w)), seq)
			return db.Set(key, value, pebble.Sync)
		}
	}

	var a, b, ratios, costs, bareCosts []float64
	for i := range 2*e.rounds + 1 {
		end, err := profileSelf(e, fmt.Sprintf("in-process-%d-%d", writers, i))
		if err != nil {
			return l, err
		}
		x, cost, err := rate(e, ours)
		end()
		if err != nil {
			return l, err
		}
		y, bareCost, err := rate(e, bare)
		if err != nil {
			return l, err
		}
		a, b, ratios = append(a, x), append(b, y), append(ratios, x/y)
		costs, bareCosts = append(costs, cost), append(bareCosts, bareCost)
	}
	r := median(ratios)
	return line{
		what: fmt.Sprintf("durable append in-process, %d writers, against bare Pebble", writers),
		ours: fmt.Sprintf("%s, %.0f µs cpu each", perSecond(median(a)), median(costs)),
		peer: fmt.Sprintf("%s, %.0f µs cpu each", perSecond(median(b)), median(bareCosts)), ratio: r, value: r, floor: true, need: 0.8, want: 0.95, must: "0.8 x", aim: "0.95 x",
	}, nil
}

// rate runs all steps beside each other for a round; cost is the processor time
// of one in µs.
func rate(e *env, steps []func() error) (perSecond, cost float64, err error) {
	runtime.GC()
	before := used()
	var done atomic.Int64
	var first atomic.Pointer[error]
	var wg sync.WaitGroup
	begun := time.Now()
	span := e.span / 4
	for _, step := range steps {
		wg.Go(func() {
			n := int64(0)
			for time.Since(begun) < span {
				if err := step(); err != nil {
					first.CompareAndSwap(nil, &err)
					break
				}
				n++
			}
			done.Add(n)
		})
	}
	wg.Wait()
	if p := first.Load(); p != nil {
		return 0, 0, *p
	}
	n := float64(max(done.Load(), 1))
	return n / time.Since(begun).Seconds(), float64((used() - before).Microseconds()) / n, nil
}

// used is the processor time that this process has used.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bareOptions are the ones the journal runs Pebble with.
func bareOptions() *pebble.Options {
	o := &pebble.Options{
		FormatMajorVersion: pebble.FormatNewest, MemTableSize: 16 << 20, MemTableStopWritesThreshold: 4,
		L0CompactionThreshold: 4, L0StopWritesThreshold: 32, LBaseMaxBytes: 64 << 20, MaxOpenFiles: 512, CacheSize: 16 << 20,
		Logger: quietLogger{}, Cleaner: removerLike(pebble.ArchiveCleaner.Clean),
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// remover, like the journal's, makes Pebble not use old log files again.
type remover[T any] struct{ pebble.ArchiveCleaner }

func (remover[T]) Clean(fs vfs.FS, _ T, path string) error { return fs.Remove(path) }

func removerLike[T any](func(pebble.ArchiveCleaner, vfs.FS, T, string) error) remover[T] {
	return remover[T]{}
}

type quietLogger struct{}

func (quietLogger) Infof(string, ...any)         {}
func (quietLogger) Errorf(f string, args ...any) { fmt.Printf(f+"\n", args...) }
func (quietLogger) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
