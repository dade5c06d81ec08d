package node

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sleep"
)

// gatherTime is how long a new owner waits for the unfinished text of other nodes, unless a test sets another time.
const gatherTime = 3 * time.Second

// aloneTime is how long a new owner waits while no other node answers: it is cut off, and could store nothing.
const aloneTime = 15 * time.Second

// askTime is how long one question may take: it or its answer may be lost.
const askTime = 500 * time.Millisecond

// textsPerAnswer is how many sessions an answer to msgTextSizes has.
const textsPerAnswer = 2000

// unfinishedText is how much a node has of the unfinished blocks of a session.
type unfinishedText struct {
	Session chat.SessionID       `json:"s"`
	Bytes   map[chat.BlockID]int `json:"b"`
}

// gatherText gets the unfinished text that other nodes have and this one does not, before this node decides anything as the new
// owner of a partition. Two nodes have what any reader was shown: the owner, and the node that has shown it or said that it is stored. A node
// that has applied the claim at pos stores no more text of the owner before it. So the text is complete when all nodes but one have
// answered. If the former owner has answered, or is this node, all nodes that are present have to: another one may have stored and shown a piece
// before the former owner was told. A process that has just started does not know yet which nodes are present.
func (n *Node) gatherText(ctx context.Context, p *part, pos cluster.Pos) {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithTimeout(ctx, max(n.gatherTime, aloneTime))
	defer cancel()
	late := time.Now().Add(n.gatherTime)
	answers := make(chan string)
	asked, answered := map[string]bool{}, map[string]bool{}
	former := p.formerOwner()
	complete := func() bool {
		others := n.opt.Trim.Nodes - 1
		switch missing := func(node string) bool { return !answered[node] }; {
		case len(answered) == others:
			return true
		case former == n.opt.Name || answered[former]:
			return len(answered) == others-1 && time.Since(n.begun) > Silence && !slices.ContainsFunc(n.present(), missing)
		}
		return len(answered) == others-1
	}
	for !complete() {
		if len(answered) > 0 && time.Now().After(late) {
			cancel()
		}
		for _, h := range p.get().Peers() {
			if asked[h.Node] {
				continue
			}
			asked[h.Node] = true
			asking.Go(func() {
				for n.gatherFrom(ctx, h.Node, p, pos) != nil {
					if sleep.For(ctx, retryPause) != nil {
						return
					}
				}
				select {
				case answers <- h.Node:
				case <-ctx.Done():
				}
			})
		}
		select {
		case node := <-answers:
			answered[node] = true
		case <-time.After(retryPause): // another node may be heard by now
		case <-ctx.Done():
			n.log.Warn("too few nodes said what unfinished text they have; readers may see the last words of an answer again", "partition", p.number)
			return
		}
	}
}

func (n *Node) gatherFrom(ctx context.Context, node string, p *part, pos cluster.Pos) error {
	ask := func(m message) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		return n.ask(ctx, node, p, m)
	}
	for after := chat.SessionID(""); ; {
		b, err := ask(message{kind: msgTextSizes, body: append(binary.BigEndian.AppendUint64(nil, uint64(pos)), after...)})
		var list []unfinishedText
		if err == nil {
			err = json.Unmarshal(b, &list)
		}
		if err != nil {
			return err
		}
		for _, t := range list {
			after = t.Session
			if n.hasText(&t) {
				continue
			}
			b, err := ask(message{kind: msgNodeBlocks, body: []byte(t.Session)})
			if err != nil {
				return err
			}
			pieces, err := readBlocks(b)
			if err != nil {
				return err
			}
			p.showMu.Lock()
			if !p.status().Owns { // not if this node has begun without the rest of this answer
				n.storePreviews(context.WithoutCancel(ctx), []core.SessionPieces{{Session: t.Session, Pieces: pieces}})
			}
			p.showMu.Unlock()
		}
		if len(list) < textsPerAnswer {
			return nil
		}
	}
}

// blockSizes returns how many bytes this node has of the unfinished blocks of a session.
func (n *Node) blockSizes(id chat.SessionID) map[chat.BlockID]int {
	sizes := map[chat.BlockID]int{}
	for _, b := range n.opt.Hub.Blocks(id) {
		sizes[b.ID] = len(b.Text)
	}
	return sizes
}

// hasText reports whether this node has as much of all blocks.
func (n *Node) hasText(t *unfinishedText) bool {
	have := n.blockSizes(t.Session)
	for id, bytes := range t.Bytes {
		if bytes > have[id] {
			return false
		}
	}
	return true
}

// texts answers msgTextSizes: the unfinished text of the sessions of a partition whose ids come after another one, when this node has
// applied a position.
func (n *Node) texts(ctx context.Context, p *part, pos cluster.Pos, after chat.SessionID) ([]byte, error) {
	if err := p.get().Reached(ctx, pos); err != nil {
		return nil, err
	}
	p.showMu.Lock() // text of the owner before that is being stored now is part of the answer
	defer p.showMu.Unlock()
	var ids []chat.SessionID
	for _, id := range n.opt.Hub.Unfinished() {
		if id > after && n.Partition(id) == p.number {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	ids = ids[:min(len(ids), textsPerAnswer)]
	list := make([]unfinishedText, 0, len(ids))
	for _, id := range ids {
		list = append(list, unfinishedText{id, n.blockSizes(id)})
	}
	return json.Marshal(list)
}
