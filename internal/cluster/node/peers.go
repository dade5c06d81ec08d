package node

import (
	"context"
	"errors"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/journal"
)

// Peer handles messages of the same part of the server on other nodes. Messages have at most maxPeerMessage bytes.
type Peer interface {
	// HandleRequest handles a request, one after the other for each partition. It must not block; reply is called once, from any
	// goroutine.
	HandleRequest(data []byte, reply func(answer []byte, err error))
	// HandleBroadcast handles a message to all other nodes. It must not block.
	HandleBroadcast(data []byte)
}

// maxPeerMessage is the size of the largest message to a Peer.
const maxPeerMessage = 64 << 10

// SetPeer sets what handles the messages of Ask and Broadcast. It is called before Run.
func (n *Node) SetPeer(p Peer) { n.peer = p }

// Ask sends a message about a turn to the Peer of another node. Messages to one node about turns of one partition arrive in the
// order of the calls. An error with the code not_found means that the message has certainly not arrived.
func (n *Node) Ask(ctx context.Context, node string, turn chat.TurnID, data []byte) (wait func() ([]byte, error)) {
	p := n.partOfTurn(turn)
	transport := n.others()
	switch {
	case transport == nil || p == nil:
		return func() ([]byte, error) { return nil, chat.Errorf(chat.NotFound, "there is no other node") }
	case len(data) > maxPeerMessage:
		return func() ([]byte, error) {
			return nil, chat.Errorf(chat.TooLarge, "a message to another node is too large")
		}
	}
	get := transport.Request(ctx, node, p.number, message{kind: msgPeer, body: data}.encode(p))
	return func() ([]byte, error) {
		b, err := get()
		switch {
		case errors.Is(err, ErrNoNode):
			return nil, chat.Errorf(chat.NotFound, "the node is not there").Because(err)
		case err != nil:
			return nil, errUnknown.Because(err)
		}
		answer, _, err := decodeReply(b)
		return answer, err
	}
}

// Broadcast sends a message to the Peers of all other nodes. It may be lost.
func (n *Node) Broadcast(data []byte) { n.broadcast(msgPeer, data) }

// BroadcastToDialects sends a message to Options.ToDialects of all other nodes. It may be lost, and is if it is too large.
func (n *Node) BroadcastToDialects(data []byte) { n.broadcast(msgDialects, data) }

func (n *Node) broadcast(kind byte, data []byte) {
	transport := n.others()
	if transport != nil && len(data) <= maxPeerMessage {
		transport.Broadcast(append([]byte{kind}, data...))
	}
}

// Owner returns the node that owns the session of a turn, and the epoch of its partition; "" if there is none.
func (n *Node) Owner(turn chat.TurnID) (node string, epoch uint64) {
	p := n.partOfTurn(turn)
	if p == nil {
		return "", 0
	}
	st := p.status()
	if st.Copy.Claim.Node == n.opt.Name && !st.Owns {
		return "", st.Copy.Epoch // an earlier process of this node
	}
	return st.Copy.Claim.Node, st.Copy.Epoch
}

// Position returns how far this node has applied the log with a turn.
func (n *Node) Position(turn chat.TurnID) uint64 {
	if p := n.partOfTurn(turn); p != nil {
		return uint64(p.status().Copy.Pos)
	}
	return 0
}

// Reach waits until this node has applied a position of the log with a turn.
func (n *Node) Reach(ctx context.Context, turn chat.TurnID, pos uint64) error {
	p := n.partOfTurn(turn)
	if p == nil {
		return chat.Errorf(chat.Invalid, "%q is not a turn", turn)
	}
	return n.reach(ctx, p, cluster.Pos(pos))
}

// partOfTurn returns the partition of a turn's session, nil if the id is not one of a turn.
func (n *Node) partOfTurn(turn chat.TurnID) *part {
	id, ok := chat.ParseID(chat.TurnPrefix, string(turn))
	if !ok {
		return nil
	}
	number, _, ok := id.Parts()
	if !ok {
		return nil
	}
	return n.partOfNumber(number)
}

// partOfNumber returns the partition of the session with a number.
func (n *Node) partOfNumber(number chat.Number) *part {
	return n.parts[int(number>>(core.NumberBits-8))%len(n.parts)]
}

// partOfAlias returns the partition of an alias.
func (n *Node) partOfAlias(alias journal.AliasID) *part {
	return n.parts[int(alias[0])%len(n.parts)]
}
