package node

import (
	"context"

	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/session"
)

// The owner sends text that is being written to all nodes, beside the log. The message has the position of the log that the
// owner had applied: another node shows the text after it has applied that position, and does not show it if a later event
// has finished its block. A message may be lost; then the next one does not continue the block, and the node asks the owner for
// the whole block.
//
// The messages of a partition are numbered. A commit has the number of the last message before it, so that another node shows
// the text that was written before an event before the event, see [previewOrder]. The owner's own readers get the text when other
// nodes have stored it, see [unstoredTexts].

// WritePreviews sends pieces of open blocks to the other nodes and writes them to the preview file when enough of those have them. So a
// node that was killed has no text in its file that no reader was shown; the next owner may have written other text in its place.
func (j *Journal) WritePreviews(ctx context.Context, all []core.SessionPieces) {
	n := j.node
	unwritable := j.Writable() // before the other nodes show anything
	status := make([]cluster.Status, len(n.parts))
	for i, p := range n.parts {
		status[i] = p.status()
	}
	messages := make([]*sentPreviews, len(n.parts))
	for i := range all {
		of := &all[i]
		part := n.Partition(of.Session)
		st := status[part]
		switch {
		case unwritable != nil:
			of.Err = unwritable
			continue
		case !st.Owns:
			of.Err = session.ErrOwnerChanged
			continue
		case messages[part] == nil:
			messages[part] = &sentPreviews{partition: part, epoch: st.Copy.Epoch, pos: st.Copy.Pos}
		}
		messages[part].sessions = append(messages[part].sessions, *of)
	}
	failed := n.replicate(ctx, messages)
	written := make([]core.SessionPieces, 0, len(all))
	for i := range all {
		of := &all[i]
		if of.Err == nil {
			of.Err = failed[n.Partition(of.Session)]
		}
		if of.Err == nil {
			written = append(written, *of)
		}
	}
	j.Journal.WritePreviews(ctx, written)
	for i := range all {
		if of := &all[i]; of.Err == nil {
			of.Err = written[0].Err
			written = written[1:]
		}
	}
}

// replicate sends messages to the other nodes, one or nil for each partition, and waits until a majority of the nodes has them. It
// returns an error for each partition.
func (n *Node) replicate(ctx context.Context, messages []*sentPreviews) (failed []error) {
	sent := make([]*unstoredText, len(n.parts))
	transport := n.others()
	for i, m := range messages {
		if m != nil {
			sent[i] = n.parts[i].sendPreviews(m, transport, n.OthersOfMajority())
		}
	}
	failed = make([]error, len(n.parts))
	for i, t := range sent {
		switch {
		case t != nil:
			failed[i] = n.waitStored(ctx, n.parts[i], t, transport)
		case messages[i] != nil:
			failed[i] = session.ErrOwnerChanged
		}
	}
	return failed
}
