package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/internal/journal"
)

// bareFlag is the argument that makes this program open a store with bare Pebble.
const bareFlag = "-open-pebble"

// bareValue is what bare Pebble stores for an event.
var bareValue = []byte(strings.Repeat("v", 300))

// bare is Pebble with the options of the journal and nothing else of Parley.
type bare struct{ *pebble.DB }

func openBare(dir string) (bare, error) {
	o := journal.EngineOptions()
	o.Logger = quietLogger{}
	db, err := pebble.Open(dir, o)
	return bare{db}, err
}

func bareKey(writer int, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{'E'}, uint64(writer)), seq)
}

// writers returns steps that each set one value and wait until it is on disk.
func (b bare) writers(n int) []func() error {
	steps := make([]func() error, n)
	for w := range steps {
		var seq uint64
		steps[w] = func() error {
			seq++
			return b.Set(bareKey(w, seq), bareValue, pebble.Sync)
		}
	}
	return steps
}

// pairs returns steps that store what an append stores: an event of size bytes and the session's head.
func (b bare) pairs(n, size int) []func() error {
	steps := make([]func() error, n)
	event, head := []byte(strings.Repeat("v", size)), make([]byte, 32)
	for w := range steps {
		var seq uint64
		steps[w] = func() error {
			seq++
			batch := b.NewBatch()
			err := errors.Join(batch.Set(bareKey(w, seq), event, nil), batch.Set(bareKey(w, 1<<64-1), head, nil))
			return errors.Join(err, batch.Commit(pebble.Sync), batch.Close())
		}
	}
	return steps
}

// fill sets n values of one writer.
func (b bare) fill(n int) error {
	for seq := range n {
		if err := b.Set(bareKey(0, uint64(seq)), bareValue, pebble.NoSync); err != nil {
			return err
		}
	}
	return b.LogData(nil, pebble.Sync)
}

// last reads the last n values of that writer.
func (b bare) last(n int) error {
	it, err := b.NewIter(&pebble.IterOptions{LowerBound: bareKey(0, 0), UpperBound: bareKey(1, 0)})
	if err != nil {
		return err
	}
	size := 0
	for ok := it.Last(); ok && n > 0; ok = it.Prev() {
		size += len(it.Value())
		n--
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err
	}
	if n > 0 || size == 0 {
		return fmt.Errorf("bare Pebble has %d values too few", n)
	}
	return nil
}

// serveBare opens the store in dir and then answers at /healthz.
func serveBare(dir, addr string) error {
	db, err := openBare(dir)
	if err != nil {
		return err
	}
	return errors.Join(serve(addr, http.NewServeMux()), db.Close())
}

type quietLogger struct{}

func (quietLogger) Infof(string, ...any)         {}
func (quietLogger) Errorf(f string, args ...any) { fmt.Printf(f+"\n", args...) }
func (quietLogger) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
