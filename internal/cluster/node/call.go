package node

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/session"
	"github.com/parley-hq/parley/internal/sleep"
)

// A request to another node: its kind, the partition, and what the kind needs.
const (
	msgCall        = 'c' // a call of the session rules
	msgSubmit      = 's' // a change of the journal: its kind and its encoding
	msgOwnerBlocks = 'b' // asks for the unfinished blocks of a session
	msgAt          = 'a' // asks for the owner's position, see catchup.go
	msgChunk       = 'f' // asks for a part of the bytes of a file; any node answers
	msgKeep        = 'k' // asks a node to store the bytes of files; any node answers
	msgErased      = 'e' // asks a node to remove an erased session; any node answers
	msgSynced      = 'y' // asks a node to have everything up to a position on disk; any node answers
	msgCompact     = 'z' // asks a node to remove trimmed frames from its files; any node answers
	msgHeads       = 'v' // asks for the ends of sessions, see compare.go; any node answers
	msgForget      = 'g' // a node was removed from the cluster; any node answers
	msgDrain       = 'd' // asks a node to hand its partitions over; any node answers
	msgCopy        = 'o' // asks for the store of a node, see copy.go; any node answers
	msgRepair      = 'r' // a step of a repair, see repair.go; any node answers
	msgPeer        = 'p' // a message to the Peer of a node; any node answers
	msgTextSizes   = 'u' // asks how much unfinished text a node has, see gather.go; any node answers
	msgNodeBlocks  = 'x' // asks for the unfinished blocks of a session that a node has; any node answers
	msgApplied     = 'q' // asks how far a node has applied the log; any node answers

	msgPreviews = 't' // text that is being written, which is broadcast; see preview.go
	msgStored   = 'w' // tells the owner that text is stored, see preview_stored.go
	msgDialects = 'n' // a message to the dialects of other nodes, which is broadcast
)

// A reply: what became of the request, the position that the owner has applied, and the answer.
const (
	replyDone    = 'd'
	replyMoved   = 'm' // the node does not own the partition; nothing was done
	replyRefused = 'r' // the answer is an error
)

// message is a request about a partition.
type message struct {
	kind   byte
	body   []byte
	waited time.Duration // for an owner, before it was sent; whole milliseconds
}

const messageHeader = 1 + 2 + 4

func (m message) encode(p *part) []byte {
	b := append(make([]byte, 0, messageHeader+len(m.body)), m.kind)
	b = binary.BigEndian.AppendUint16(b, uint16(p.number))
	b = binary.BigEndian.AppendUint32(b, uint32(m.waited.Milliseconds()))
	return append(b, m.body...)
}

// readMessage decodes a message and its partition.
func readMessage(b []byte) (m message, partition int, ok bool) {
	if len(b) < messageHeader {
		return message{}, 0, false
	}
	waited := time.Duration(binary.BigEndian.Uint32(b[3:])) * time.Millisecond
	return message{b[0], b[messageHeader:], waited}, int(binary.BigEndian.Uint16(b[1:])), true
}

// Send implements session.OtherNodes.
func (n *Node) Send(ctx context.Context, id chat.SessionID, call []byte, repeat bool) (wait func() ([]byte, error)) {
	return n.send(ctx, n.partOf(id), message{kind: msgCall, body: call}, repeat)
}

// retryPause is the time between two attempts to reach the owner of a partition.
const retryPause = 50 * time.Millisecond

var (
	errNoOwner = chat.Errorf(chat.Unavailable, "no node can write this session at the moment; try again in a few seconds").WithReason(chat.NoOwner)
	errMoved   = errors.New("the node does not own the partition")
)

// send sends a message to the owner of a partition, the first time at once. wait tries again while there is no owner. It
// returns the answer when this node has applied what the owner had applied.
func (n *Node) send(ctx context.Context, p *part, m message, repeat bool) (wait func() ([]byte, error)) {
	return n.sendWithin(ctx, p, m, repeat, n.opt.Wait)
}

// sendWithin is send with another limit than Options.Wait for an owner, and for its answer.
func (n *Node) sendWithin(ctx context.Context, p *part, m message, repeat bool, limit time.Duration) (wait func() ([]byte, error)) {
	if (m.kind == msgCall || m.kind == msgSubmit) && !p.status().Owns {
		n.metrics.forwarded.Inc()
	}
	begun := time.Now()
	get := n.attempt(ctx, p, m, limit)
	return func() ([]byte, error) {
		end := time.Now().Add(limit)
		for {
			answer, pos, err := get()
			switch {
			case err == nil:
				return answer, n.reach(ctx, p, pos)
			case errors.Is(err, errMoved), errors.Is(err, ErrNoNode): // certainly not handled
			case refused(err):
				_ = n.reach(ctx, p, pos) // so that the caller finds the reason here; the refusal is valid without it
				return nil, err
			case !repeat:
				return nil, errUnknown.Because(err)
			}
			if err := p.refusal(); err != nil {
				return nil, err
			}
			if time.Now().After(end) {
				return nil, errNoOwner.Because(err)
			}
			if sleep.For(ctx, retryPause) != nil {
				return nil, errNoOwner.Because(context.Cause(ctx))
			}
			m.waited = time.Since(begun)
			get = n.attempt(ctx, p, m, limit)
		}
	}
}

// refused reports whether an error is the answer of the owner.
func refused(err error) bool {
	_, ok := errors.AsType[*chat.Error](err)
	return ok
}

// reach waits until this node has applied a position.
func (n *Node) reach(ctx context.Context, p *part, pos cluster.Pos) error {
	ctx, cancel := context.WithTimeout(ctx, n.opt.Wait)
	defer cancel()
	if err := p.get().Reached(ctx, pos); err != nil {
		return chat.Errorf(chat.Unavailable, "it is stored, but this node is behind and cannot show it yet; read it again in a moment").WithReason(chat.OutcomeUnknown).Because(err)
	}
	return nil
}

// attempt sends a message to the node that owns the partition now, which has to answer within limit. If that is this node, it handles the
// message itself.
func (n *Node) attempt(ctx context.Context, p *part, m message, limit time.Duration) (get func() (answer []byte, pos cluster.Pos, err error)) {
	failed := func(err error) func() ([]byte, cluster.Pos, error) {
		return func() ([]byte, cluster.Pos, error) { return nil, 0, err }
	}
	transport := n.others()
	if transport == nil {
		return failed(ErrNoNode)
	}
	st := p.status()
	if st.Owns {
		reply := make(chan []byte, 1)
		n.handle(ctx, p, m, func(b []byte) { reply <- b })
		return func() ([]byte, cluster.Pos, error) { return decodeReply(<-reply) }
	}
	owner := st.Copy.Claim.Node
	if owner == "" || owner == n.opt.Name { // an earlier process of this node: it will claim the partition, or another node will
		return failed(ErrNoNode)
	}
	ctx, cancel := context.WithTimeout(p.epochContext(), limit)
	wait := transport.Request(ctx, owner, p.number, m.encode(p))
	return func() ([]byte, cluster.Pos, error) {
		defer cancel()
		b, err := wait()
		if err != nil {
			return nil, 0, err
		}
		return decodeReply(b)
	}
}

// ask sends a request to a node, whether it owns the partition or not, and waits for the answer as long as the node is heard.
func (n *Node) ask(ctx context.Context, node string, p *part, m message) ([]byte, error) {
	transport := n.others()
	if transport == nil {
		return nil, errNotConnected
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for sleep.For(ctx, time.Second) == nil {
			if !slices.Contains(n.present(), node) {
				cancel()
			}
		}
	}()
	reply, err := transport.Request(ctx, node, p.number, m.encode(p))()
	if err != nil {
		return nil, err
	}
	answer, _, err := decodeReply(reply)
	return answer, err
}

func decodeReply(b []byte) (answer []byte, pos cluster.Pos, err error) {
	if len(b) < 9 {
		return nil, 0, chat.Errorf(chat.Internal, "the reply of another node is too short")
	}
	pos = cluster.Pos(binary.BigEndian.Uint64(b[1:]))
	switch b[0] {
	case replyMoved:
		return nil, 0, errMoved
	case replyRefused:
		e := &chat.Error{}
		if err := json.Unmarshal(b[9:], e); err != nil {
			return nil, 0, err
		}
		return nil, pos, e
	}
	return b[9:], pos, nil
}

// serve returns the function that handles requests of other nodes.
func (n *Node) serve(ctx context.Context, tasks *sync.WaitGroup) func(data []byte, reply func([]byte)) {
	return func(data []byte, reply func([]byte)) {
		m, partition, ok := readMessage(data)
		if !ok || partition >= len(n.parts) {
			n.log.Warn("a request of another node cannot be read; do all nodes run the same version?")
			return
		}
		tasks.Add(1)
		n.handle(ctx, n.parts[partition], m, func(b []byte) {
			defer tasks.Done()
			reply(b)
		})
	}
}

// anyNode returns the function that handles requests of a kind which any node answers, nil for other kinds.
func (n *Node) anyNode(p *part, kind byte) func(ctx context.Context, m message) ([]byte, error) {
	at := func(f func(ctx context.Context, p *part, pos cluster.Pos, rest []byte) ([]byte, error)) func(context.Context, message) ([]byte, error) {
		return func(ctx context.Context, m message) ([]byte, error) {
			if len(m.body) < 8 {
				return nil, chat.Errorf(chat.Invalid, "not a position")
			}
			return f(ctx, p, cluster.Pos(binary.BigEndian.Uint64(m.body)), m.body[8:])
		}
	}
	switch kind {
	case msgChunk, msgKeep:
		if n.files != nil && n.files.disk != nil {
			return n.files.disk.serve
		}
	case msgHeads:
		return func(ctx context.Context, m message) ([]byte, error) { return n.heads(ctx, m.body) }
	case msgCopy:
		return func(ctx context.Context, m message) ([]byte, error) { return n.serveCopy(ctx, m.body) }
	case msgForget:
		return func(_ context.Context, m message) ([]byte, error) { n.forget(string(m.body)); return nil, nil }
	case msgDrain:
		return func(ctx context.Context, _ message) ([]byte, error) { return nil, n.Drain(ctx, "") }
	case msgRepair:
		return func(ctx context.Context, m message) ([]byte, error) { return n.serveRepair(ctx, p, m.body) }
	case msgNodeBlocks:
		return func(_ context.Context, m message) ([]byte, error) {
			return json.Marshal(sentBlocks(n.opt.Hub.Blocks(chat.SessionID(m.body))))
		}
	case msgApplied:
		return func(context.Context, message) ([]byte, error) { return nil, nil } // every reply has the position
	case msgTextSizes:
		return at(func(ctx context.Context, p *part, pos cluster.Pos, after []byte) ([]byte, error) {
			return n.texts(ctx, p, pos, chat.SessionID(after))
		})
	case msgErased:
		return at(func(ctx context.Context, p *part, pos cluster.Pos, rest []byte) ([]byte, error) {
			return nil, n.erased(ctx, p, pos, rest)
		})
	case msgSynced:
		return at(func(ctx context.Context, p *part, pos cluster.Pos, _ []byte) ([]byte, error) {
			return nil, n.synced(ctx, p, pos)
		})
	case msgCompact:
		return at(func(ctx context.Context, p *part, pos cluster.Pos, _ []byte) ([]byte, error) {
			return nil, n.compact(ctx, p, pos)
		})
	}
	return nil
}

// handle handles a request of another node. It returns when the request has its place in the order of its session.
func (n *Node) handle(ctx context.Context, p *part, m message, reply func([]byte)) {
	answer := func(body []byte, err error) {
		status := byte(replyDone)
		switch {
		case chat.ReasonOf(err) == chat.OwnerChanged:
			status, body = replyMoved, nil
		case err != nil:
			e := chat.Public(err)
			status = replyRefused
			body, _ = json.Marshal(chat.Error{Code: e.Code, Reason: e.Reason, Msg: e.Msg}) // has no values that cannot be written
		}
		b := append(make([]byte, 0, 9+len(body)), status)
		b = binary.BigEndian.AppendUint64(b, uint64(p.status().Copy.Pos))
		reply(append(b, body...))
	}
	if f := n.anyNode(p, m.kind); f != nil {
		go func() { answer(f(ctx, m)) }()
		return
	}
	if m.kind == msgPeer && n.peer != nil {
		n.peer.HandleRequest(m.body, answer)
		return
	}
	if err := p.refusal(); err != nil {
		answer(nil, err)
		return
	}
	if !p.status().Owns {
		answer(nil, session.ErrOwnerChanged)
		return
	}
	switch m.kind {
	case msgCall:
		wait := n.sessions.Serve(context.WithoutCancel(ctx), m.body, m.waited)
		go func() { answer(wait()) }()
	case msgSubmit:
		if len(m.body) == 0 {
			answer(nil, chat.Errorf(chat.Invalid, "not a change"))
			return
		}
		p.get().Submit(cluster.Record{Kind: m.body[0], Data: m.body[1:]}, func(_ cluster.Pos, err error) {
			if errors.Is(err, cluster.ErrLost) || errors.Is(err, cluster.ErrNotOwner) {
				err = session.ErrOwnerChanged
			} else if errors.Is(err, cluster.ErrStopped) {
				err = errUnknown
			}
			go answer(nil, err)
		})
	case msgOwnerBlocks:
		answer(json.Marshal(n.ownerBlocks(p, chat.SessionID(m.body))))
	case msgAt:
		go func() { answer(nil, n.confirmOwner(ctx, p)) }()
	default:
		answer(nil, chat.Errorf(chat.Invalid, "a request of another version"))
	}
}
