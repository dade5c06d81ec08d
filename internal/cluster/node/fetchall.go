package node

import (
	"context"

	"github.com/parley-hq/parley/chat"
)

// FetchAll makes this node have the bytes of every file that the log names, and returns how many files there are. It is for a
// node with a new disk: files of the old one are on one other node only. A file that cannot be copied does not keep it from the
// others; the error is that of the last one.
func (f *Files) FetchAll(ctx context.Context) (count int, failed error) {
	if f.disk == nil {
		return 0, nil
	}
	for _, p := range f.node.parts { // files that are named later are on two disks
		if _, err := f.node.send(ctx, p, message{kind: msgAt}, true)(); err != nil {
			return 0, err
		}
	}
	for id, err := range f.node.opt.Journal.IDs(ctx) {
		if err != nil {
			return count, err
		}
		infos, err := f.node.opt.Journal.Files(ctx, id)
		if code := chat.CodeOf(err); code == chat.NotFound || code == chat.Gone {
			continue // erased meanwhile
		} else if err != nil {
			return count, err
		}
		for _, info := range infos {
			b := blob{id, info.SHA256}
			err := f.disk.fetch(ctx, b, info.Size, f.node.present())
			if ctx.Err() != nil {
				return count, ctx.Err()
			}
			if err != nil {
				if named, nerr := f.named(ctx, b); nerr != nil || named {
					failed = err
				}
				continue
			}
			count++
		}
	}
	return count, failed
}
