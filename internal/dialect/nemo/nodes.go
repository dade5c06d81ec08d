package nemo

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/internal/json"
)

// A client of a cluster may continue at another node. So the nodes send each other how far their clients have read, and before a client
// starts, its node asks the others about it. When a message between nodes is lost, a client may get text twice.
//
// Each connection of a client is a move, with a higher number than all moves before it. Nodes may have different positions of a
// conversation: those of the last move count, because the client has read on since the earlier ones.

// Nodes connects the dialects of the nodes of a cluster.
type Nodes struct {
	Name      string            // of this node
	Broadcast func(data []byte) // sends a message to Receive of the dialect of all other nodes, and may lose it; it does not block
	Others    func() int        // how many other nodes are present
	Least     int               // how many of them with this one are a majority
}

const (
	collectTime  = 20 * time.Millisecond  // changes of this time are sent together
	askTime      = time.Second            // how long a node waits for the answers of all others that are present
	askLimit     = 4 * time.Second        // how long it waits for Nodes.Least of them: it may have just started
	askAgain     = 250 * time.Millisecond // until a question is sent again: it or the answer may be lost
	maxPointList = 48 << 10               // bytes of points in a message
)

// nodeMessage is a message to the dialect of other nodes.
type nodeMessage struct {
	Node     string   `json:"node"`               // that sends it
	Points   []string `json:"points,omitempty"`   // lines, see pointFile
	Question string   `json:"question,omitempty"` // its id
	Key      string   `json:"key,omitempty"`      // what the question is about
	Answer   string   `json:"answer,omitempty"`   // the id of the question that it answers
	Live     int      `json:"live,omitempty"`     // of an answer: clients that are connected to the node
}

// Receive takes a message of another node. It does not block.
func (d *Dialect) Receive(data []byte) {
	var m nodeMessage
	if err := json.Unmarshal(data, &m); err != nil || d.opt.Nodes == nil {
		d.log.Warn("a message of another node cannot be read; do all nodes run the same version?", "err", err)
		return
	}
	d.points.receive(&m)
}

func (r *resumePoints) receive(m *nodeMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range m.Points {
		if s, ok := parsePoint(line); ok && s.node != "" && s.node != r.nodes.Name {
			r.keepPoint(m.Node, s)
		}
	}
	if asked := r.questions[m.Answer]; asked != nil {
		select {
		case asked <- *m:
		default: // more answers than nodes
		}
	}
	if m.Question != "" {
		go r.answer(m.Question, m.Key)
	}
}

// keepPoint keeps what a node sent about its own clients, or about those of a third node if it is newer than what is known; the caller holds mu.
func (r *resumePoints) keepPoint(from string, s savedPoint) {
	p := r.point(s.key)
	if have, ok := p.elsewhere[s.node]; ok {
		order := cmp.Or(cmp.Compare(s.moves, have.moves), s.last().when.Compare(have.last().when))
		if order < 0 || order == 0 && s.node != from {
			return
		}
	}
	if p.elsewhere == nil {
		p.elsewhere = map[string]savedPoint{}
	}
	p.elsewhere[s.node] = s
	if len(p.live) > 0 && r.now().Sub(p.answered) < 2*askTime {
		p.adopt(s.moves) // the clients of this node have just responded, so it was another client that moved
	}
	r.file.append(s, r.all())
}

// answer sends the other nodes the positions that this one has of a conversation, after it has closed connections that do not respond.
func (r *resumePoints) answer(question, key string) {
	r.closeStale(key, nil)
	m := nodeMessage{Answer: question}
	r.mu.Lock()
	if p := r.byKey[key]; p != nil {
		p.answered = r.now()
		for _, sub := range p.live {
			if sub.saved.Base != 0 {
				m.Live++
			}
		}
		for s := range r.known(p) {
			m.Points = append(m.Points, r.line(s))
		}
	}
	r.mu.Unlock()
	r.broadcast(m)
}

// ask asks the other nodes about a conversation and keeps what they answer. It returns how many clients of the conversation are connected
// to each node that answered.
func (r *resumePoints) ask(ctx context.Context, key string) map[string]int {
	if r.nodes == nil {
		return nil
	}
	question, answers := randomID(), make(chan nodeMessage, 16)
	r.mu.Lock()
	r.questions[question] = answers
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.questions, question)
	}()
	again := time.NewTicker(askAgain)
	defer again.Stop()
	live, begun := map[string]int{}, time.Now()
	r.broadcast(nodeMessage{Question: question, Key: key})
	for {
		took := time.Since(begun)
		if n := len(live); n >= r.nodes.Least && (n >= r.nodes.Others() || took > askTime) || took > askLimit {
			return live
		}
		select {
		case m := <-answers:
			live[m.Node] = m.Live
		case <-again.C:
			r.broadcast(nodeMessage{Question: question, Key: key})
		case <-ctx.Done():
			return live
		}
	}
}

// gather adds the departed clients of other nodes to those of this one, and returns how many are connected elsewhere. All clients of a
// node that did not answer count as departed: the node was lost, or their connections do not respond. The caller holds mu.
func (r *resumePoints) gather(p *resumePoint, live map[string]int) (connectedElsewhere int) {
	now := r.now()
	p.adopt(p.lastMove())
	var departed []clients
	for node, s := range p.elsewhere {
		n, answered := live[node]
		connectedElsewhere += n
		if s.moves < p.moves {
			continue
		}
		for _, g := range s.remembered(now) {
			if g.state == connected {
				g.count, g.state = g.count-n, connectionLost
				if !answered {
					g.when = now
				}
			}
			if g.count > 0 {
				departed = append(departed, g)
			}
		}
	}
	if len(departed) > 0 {
		departed = append(departed, p.departed...)
		slices.SortFunc(departed, func(a, b clients) int { return a.when.Compare(b.when) })
		p.departed = nil
		for _, g := range departed {
			p.addDeparted(g)
		}
		p.move(now)
	}
	return connectedElsewhere
}

// move begins a new move. Its number is the time in microseconds, or more, so that it is also higher than moves that this node has not
// received.
func (p *resumePoint) move(now time.Time) { p.moves = max(p.lastMove()+1, uint64(now.UnixMicro())) }

// adopt sets the number of the last move, unless it is higher already. The clients that departed here before have continued elsewhere.
func (p *resumePoint) adopt(moves uint64) {
	if p.moves < moves {
		p.moves, p.departed = moves, nil
	}
}

// lastMove is the number of the last move that is known.
func (p *resumePoint) lastMove() uint64 {
	moves := p.moves
	for _, s := range p.elsewhere {
		moves = max(moves, s.moves)
	}
	return moves
}

// line is a point as other nodes get it.
func (r *resumePoints) line(s savedPoint) string {
	if s.node == "" {
		s.node = r.nodes.Name
	}
	return strings.TrimSuffix(string(appendPoint(nil, s)), "\n")
}

// changed sends a point to the other nodes soon, with others that change meanwhile; the caller holds mu.
func (r *resumePoints) changed(p *resumePoint) {
	if r.nodes == nil {
		return
	}
	if r.unsent[p] = true; len(r.unsent) == 1 {
		time.AfterFunc(collectTime, r.sendChanges)
	}
}

// sendChanges sends the points that have changed.
func (r *resumePoints) sendChanges() {
	if r.nodes == nil {
		return
	}
	var messages []nodeMessage
	size := maxPointList
	r.mu.Lock()
	for p := range r.unsent {
		line := r.line(p.saved(r.now()))
		if size += len(line); size > maxPointList {
			messages, size = append(messages, nodeMessage{}), len(line)
		}
		m := &messages[len(messages)-1]
		m.Points = append(m.Points, line)
	}
	clear(r.unsent)
	r.mu.Unlock()
	for _, m := range messages {
		r.broadcast(m)
	}
}

func (r *resumePoints) broadcast(m nodeMessage) {
	m.Node = r.nodes.Name
	r.nodes.Broadcast(appendJSON(nil, m))
}
