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

// pebbleFlag is the argument that makes this program open a store with bare Pebble.
const pebbleFlag = "-open-pebble"

// pebbleDB is bare Pebble: Pebble with the options of the journal and nothing else of Parley.
type pebbleDB struct{ *pebble.DB }

func openPebble(dir string) (pebbleDB, error) {
	o := journal.EngineOptions()
	o.Logger = quietLogger{}
	db, err := pebble.Open(dir, o)
	return pebbleDB{db}, err
}

func pebbleKey(writer int, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{'E'}, uint64(writer)), seq)
}

// pairs returns a step for each event that stores what an append stores: an event, the session's head, and a difference to the
// counter of bytes. The events take turns, because equal values in a row would be compressed far better than real ones.
func (b pebbleDB) pairs(events [][]byte) []func() error {
	steps := make([]func() error, len(events))
	head, bytes := make([]byte, 40), binary.BigEndian.AppendUint64(nil, uint64(len(events[0])))
	for w := range steps {
		var seq uint64
		steps[w] = func() error {
			seq++
			event := events[(uint64(w)+seq)%uint64(len(events))]
			batch := b.NewBatch()
			err := errors.Join(batch.Set(pebbleKey(w, seq), event, nil), batch.Set(pebbleKey(w, 1<<64-1), head, nil), batch.Merge([]byte("bytes"), bytes, nil))
			return errors.Join(err, batch.Commit(pebble.Sync), batch.Close())
		}
	}
	return steps
}

// fill sets n values of one writer.
func (b pebbleDB) fill(n int) error {
	value := []byte(strings.Repeat("v", 300))
	for seq := range n {
		if err := b.Set(pebbleKey(0, uint64(seq)), value, pebble.NoSync); err != nil {
			return err
		}
	}
	return b.LogData(nil, pebble.Sync)
}

// last reads the last n values of that writer.
func (b pebbleDB) last(n int) error {
	it, err := b.NewIter(&pebble.IterOptions{LowerBound: pebbleKey(0, 0), UpperBound: pebbleKey(1, 0)})
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

// servePebble opens the store in dir and then answers at /healthz.
func servePebble(dir, addr string) error {
	db, err := openPebble(dir)
	if err != nil {
		return err
	}
	return errors.Join(serve(addr, http.NewServeMux()), db.Close())
}

type quietLogger struct{}

func (quietLogger) Infof(string, ...any)         {}
func (quietLogger) Errorf(f string, args ...any) { fmt.Printf(f+"\n", args...) }
func (quietLogger) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
