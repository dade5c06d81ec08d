package node

import (
	"bytes"
	"fmt"

	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/journal"
)

// applier stores the records of a partition and shows them to readers.
type applier struct {
	*Node
	*part
}

// Apply implements cluster.Store.
func (a applier) Apply(records []cluster.Record, c cluster.Copy) (refused []error, err error) {
	f := &journal.Frame{Partition: uint16(a.number), Copy: c.Append(nil)}
	own := c.Claim.Node == a.opt.Name && c.Claim.Process == a.processID()
	var previews uint64 // the last message with unfinished text before the frame
	for _, r := range records {
		change, err := decode(r)
		if err != nil {
			return nil, fmt.Errorf("partition %d, position %d: %w", a.number, c.Pos, err)
		}
		f.Changes = append(f.Changes, change)
		if c, ok := change.(*journal.CommitChange); ok && !own {
			previews = max(previews, c.Previews)
		}
	}
	a.order.wait(c.Epoch, previews)
	files := a.files.changed(f.Changes)
	a.showMu.Lock()
	defer a.showMu.Unlock()
	if !own {
		a.showOwnMu.Lock()
		defer a.showOwnMu.Unlock()
	}
	if refused, err = a.opt.Journal.Apply(f); err != nil {
		return nil, err
	}
	a.files.applied(files)
	for i, change := range f.Changes {
		if refused[i] == nil {
			a.applied(change, c.Pos, own)
		}
	}
	return refused, nil
}

// decode returns the change of a record.
func decode(r cluster.Record) (journal.Change, error) {
	if c, ok := r.Decoded.(journal.Change); ok {
		return c, nil
	}
	// The hub keeps events in memory. With a copy of the record it does not keep the whole frame with them.
	return journal.DecodeChange(r.Kind, bytes.Clone(r.Data))
}

// applied shows a change. own says that this process has decided it; its session rules know it already.
func (a applier) applied(change journal.Change, pos cluster.Pos, own bool) {
	switch c := change.(type) {
	case *journal.CommitChange:
		if !own {
			a.sessions.Applied(c.Commit)
		}
		entries := c.Entries(nil)
		a.opt.Hub.Publish(c.Session, entries)
		if !own {
			a.sessions.Shown(c.Session, entries)
		}
	case *journal.EraseChange:
		a.part.mu.Lock()
		a.part.erased = pos
		a.part.mu.Unlock()
		if !own {
			a.sessions.AppliedErasure(c.Erasure)
		}
	case *journal.ImportChange:
		if c.Step == journal.ImportEnd {
			a.sessions.AppliedImport(c.Commit)
		}
	}
}
