package node

import (
	"context"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/json"
)

// The owner sends text that is being written to all nodes, beside the log. The message has the position of the log that the
// owner had applied: another node shows the text after it has applied that position, and does not show it if a later event
// has made it outdated. A message may be lost; then the next one does not continue the block, and the node asks the owner for
// the whole block.

// sentPreviews are pieces of unfinished blocks, in sessions of one partition.
type sentPreviews struct {
	Partition int           `json:"partition"`
	Epoch     uint64        `json:"epoch"`
	Pos       cluster.Pos   `json:"pos"`
	Sessions  []sentSession `json:"sessions"`
}

// sentSession are the pieces of one session.
type sentSession struct {
	ID     chat.SessionID `json:"session"`
	Pieces []chat.Preview `json:"pieces"`
	At     []chat.At      `json:"at"` // of each piece
}

// WritePreviews writes pieces of open blocks to the preview file and sends them to the other nodes.
func (j *Journal) WritePreviews(ctx context.Context, all []chat.SessionPieces) {
	n := j.node
	before := make([]cluster.Status, len(n.parts))
	for i, p := range n.parts {
		before[i] = p.status()
	}
	j.Journal.WritePreviews(ctx, all)
	messages := make([]*sentPreviews, len(n.parts))
	for i := range all {
		of := &all[i]
		part := n.Partition(of.Session)
		st := before[part]
		switch {
		case of.Err != nil:
			continue
		case !st.Owns:
			of.Err = errOwnerChanged
			continue
		case messages[part] == nil:
			messages[part] = &sentPreviews{Partition: part, Epoch: st.Copy.Epoch, Pos: st.Copy.Pos}
		}
		one := sentSession{ID: of.Session, Pieces: of.Pieces, At: make([]chat.At, len(of.Pieces))}
		for k := range of.Pieces {
			one.At[k] = of.Pieces[k].At
		}
		messages[part].Sessions = append(messages[part].Sessions, one)
	}
	n.mu.Lock()
	links := n.links
	n.mu.Unlock()
	for _, m := range messages {
		if m == nil || links == nil {
			continue
		}
		if b, err := json.Marshal(m); err != nil {
			n.log.Error("text that is being written could not be sent to the other nodes", "err", err)
		} else {
			links.transport.Broadcast(b)
		}
	}
}

// previewWait is how long a piece waits for the position of the log that it follows.
const previewWait = time.Second

// heard returns the function that takes what other nodes broadcast. Each partition has a goroutine that shows it in its
// order.
func (n *Node) heard(ctx context.Context) func(data []byte) {
	queues := make([]chan *sentPreviews, len(n.parts))
	for i, p := range n.parts {
		queue := make(chan *sentPreviews, 1024)
		queues[i] = queue
		go func() {
			for {
				select {
				case m := <-queue:
					n.showPreviews(ctx, p, m)
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	return func(data []byte) {
		m := &sentPreviews{}
		if err := json.Unmarshal(data, m); err != nil || m.Partition < 0 || m.Partition >= len(queues) {
			n.log.Warn("a message of another node cannot be read; do all nodes run the same version?", "err", err)
			return
		}
		for _, s := range m.Sessions {
			for i := range min(len(s.Pieces), len(s.At)) {
				s.Pieces[i].At = s.At[i]
			}
		}
		select {
		case queues[m.Partition] <- m:
		default: // the next piece shows that one is missing
		}
	}
}

// showPreviews gives pieces to this node's readers.
func (n *Node) showPreviews(ctx context.Context, p *part, m *sentPreviews) {
	wait, cancel := context.WithTimeout(ctx, previewWait)
	defer cancel()
	if err := p.get().Reached(wait, m.Pos); err != nil {
		return // this node is far behind
	}
	for _, one := range m.Sessions {
		if !n.addPreviews(ctx, p, m.Epoch, one.ID, one.Pieces) {
			n.askForBlocks(wait, p, m.Epoch, one.ID)
		}
	}
}

// askForBlocks asks the owner for the unfinished blocks of a session, because a piece was lost.
func (n *Node) askForBlocks(ctx context.Context, p *part, epoch uint64, id chat.SessionID) {
	b, pos, err := n.attempt(ctx, p, message{msgBlocks, []byte(id)})()
	var blocks []sentBlock
	if err != nil || json.Unmarshal(b, &blocks) != nil {
		return
	}
	if p.get().Reached(ctx, pos) != nil {
		return
	}
	missing := make([]chat.Preview, len(blocks))
	for i, b := range blocks {
		missing[i] = chat.Preview{Block: b.ID, End: len(b.Text), Text: b.Text, Kind: b.Kind, Workstream: b.Workstream, Turn: b.Turn, At: b.At}
	}
	n.addPreviews(ctx, p, epoch, id, missing)
}

// sentBlock is an unfinished block and the position of its end.
type sentBlock struct {
	chat.Block
	At chat.At `json:"at"`
}

func sentBlocks(blocks []chat.Block) []sentBlock {
	out := make([]sentBlock, len(blocks))
	for i, b := range blocks {
		out[i].Block = b
		if len(b.Ends) > 0 {
			out[i].At = b.Ends[len(b.Ends)-1].At
		}
	}
	return out
}

// addPreviews adds the pieces that are new here. It returns false if one of them does not continue its block.
func (n *Node) addPreviews(ctx context.Context, p *part, epoch uint64, id chat.SessionID, pieces []chat.Preview) bool {
	p.show.Lock()
	defer p.show.Unlock()
	if st := p.status(); st.Owns || st.Copy.Epoch != epoch {
		return true // of an owner before this one
	}
	last, err := n.opt.Journal.LastAt(id)
	if err != nil {
		return true // erased
	}
	have := map[chat.BlockID]int{}
	for _, b := range n.opt.Hub.Blocks(id) {
		have[b.ID] = len(b.Text)
	}
	whole := true
	var fresh []chat.Preview
	for _, q := range pieces {
		length, open := have[q.Block]
		switch {
		case !open && q.At <= last: // an event has finished the block, or will not follow it
			continue
		case q.Offset > length:
			whole = false
			continue
		case q.End <= length:
			continue
		}
		q.Text, q.Offset = q.Text[length-q.Offset:], length
		have[q.Block] = q.End
		fresh = append(fresh, q)
	}
	if len(fresh) == 0 {
		return whole
	}
	write := []chat.SessionPieces{{Session: id, Pieces: fresh}}
	n.opt.Journal.WritePreviews(ctx, write)
	if err := write[0].Err; err != nil {
		n.log.Warn("text that is being written could not be stored on this node", "session", id, "err", err)
		return true
	}
	entries := make([]chat.Entry, len(fresh))
	for i := range fresh {
		entries[i] = chat.Entry{At: fresh[i].At, Piece: &fresh[i]}
	}
	n.opt.Hub.Publish(id, entries)
	return whole
}
