package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// files checks the files of the inventory, and every block of every table, including
// blocks that belong to no session.
func (v *verifier) files(ctx context.Context) error {
	inv := v.j.inventory
	inv.saving.Lock() // no file is removed meanwhile
	problems := inv.compare()
	inv.saving.Unlock()
	for _, what := range problems {
		v.found(Damage{Kind: "file", What: what})
	}
	tables, err := v.j.tables()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := v.j.checkTable(ctx, name)
		if errors.Is(err, os.ErrNotExist) {
			// Merged into others meanwhile, unless it is still in use.
			now, err := v.j.tables()
			if err != nil {
				return err
			}
			if !now[name] {
				continue
			}
		}
		if err != nil {
			v.found(Damage{Kind: "file", What: fmt.Sprintf("db/%s is damaged: %s", name, cannotRead(err))})
		}
	}
	return nil
}

// tables returns the names of the tables in use.
func (j *Journal) tables(which ...pebble.SSTablesOption) (map[string]bool, error) {
	levels, err := j.db.SSTables(which...)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, level := range levels {
		for _, t := range level {
			names[fmt.Sprintf("%s.sst", t.BackingSSTNum)] = true
		}
	}
	return names, nil
}

// checkTable reads all blocks of a table.
func (j *Journal) checkTable(ctx context.Context, name string) error {
	f, err := j.opt.FS.Open(j.opt.FS.PathJoin(j.dir, "db", name))
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	o := j.engineOptions(true)
	o.EnsureDefaults()
	r, err := sstable.NewReader(ctx, readable, o.MakeReaderOptions())
	if err != nil {
		return err // NewReader has closed the file
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}
