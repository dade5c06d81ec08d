package agentpool

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// In a cluster the owner of a session runs its turns, and a worker is connected to one of the nodes. Every node sends the others
// a list of its workers ([sentWorkers]). The owner adds them to its groups as registrations with a [remoteWorker] and gives them
// turns; the node of the worker may refuse a turn when the slots are used by then (remote.go). The worker's node keeps the turn as
// a [remoteTurn] (workernode.go).
//
// The slots of a worker are counted by its node alone, so owners that give turns at the same time do not exceed them.

// Nodes reaches the other nodes of a cluster.
type Nodes interface {
	Name() string // of this node
	// Owner returns the node that owns the session of a turn, and the epoch; "" if there is none at the moment.
	Owner(turn chat.TurnID) (node string, epoch uint64)
	// Position returns how far this node has applied the log that has the turn, and Reach waits until it has applied it.
	Position(turn chat.TurnID) uint64
	Reach(ctx context.Context, turn chat.TurnID, pos uint64) error
	// Ask sends a message about a turn to the pool of another node. Messages about one turn arrive in the order of the calls. An
	// error with the code not_found means that the message has certainly not arrived.
	Ask(ctx context.Context, node string, turn chat.TurnID, data []byte) (wait func() ([]byte, error))
	// Broadcast sends a message to the pools of all other nodes. It may be lost.
	Broadcast(data []byte)
}

const (
	refreshTime    = time.Second          // how often a node sends the others all its workers
	collectTime    = 5 * time.Millisecond // how long changes are collected before they are sent
	forgetTime     = 4 * time.Second      // without a message about them the workers of another node are removed
	claimTime      = 60 * time.Second     // how long slots are kept for the turns that a worker has named; after it the SDK of the worker gives them up
	askTime        = 10 * time.Second     // limit of a message to another node
	maxSentTurns   = 500                  // turns in one message
	maxSentWorkers = 50                   // workers in one message
	maxSentText    = 16 << 10             // bytes of the error of a turn
)

// sentWorkers is the message by which a node sends others its workers.
type sentWorkers struct {
	Node    string       `json:"node"`
	Workers []sentWorker `json:"workers,omitempty"`
	Gone    []uint64     `json:"gone,omitempty"`
}

// sentWorker is a connected worker.
type sentWorker struct {
	ID        uint64              `json:"id"`
	Workspace string              `json:"workspace"`
	Agent     string              `json:"agent"`
	Slots     int                 `json:"slots"`
	Free      int                 `json:"free"`
	Given     map[string]int      `json:"given,omitempty"` // turns that the worker has, by the node that gave them
	All       bool                `json:"all,omitempty"`   // Turns begins the list of the turns that the worker has or had
	Turns     []chat.TurnID       `json:"turns,omitempty"`
	Commands  []chat.AgentCommand `json:"commands,omitempty"` // sent with All
}

// Connect makes the pool one of several. Share has to run then. It is called before workers connect.
func (p *Pool) Connect(nodes Nodes) { p.nodes = nodes }

// Share sends the other nodes the workers of this one, and removes the workers of nodes that are silent, until ctx ends.
func (p *Pool) Share(ctx context.Context) {
	all := time.NewTicker(refreshTime)
	defer all.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
			collect := time.NewTimer(collectTime)
			select {
			case <-collect.C:
			case <-ctx.Done():
				collect.Stop()
				return
			}
			p.sendWorkers(false)
		case <-all.C:
			p.sendWorkers(true)
			p.forget()
			p.checkClaims(ctx)
		}
	}
}

// touch notes that a worker of this node has changed, so that it is sent to the other nodes. The caller holds mu.
func (p *Pool) touch(r *registration) {
	if p.nodes == nil || r.remote != nil {
		return
	}
	r.touched = true
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// sendWorkers sends the other nodes the workers that have changed, or all.
func (p *Pool) sendWorkers(everything bool) {
	for _, m := range p.workersToSend(everything) {
		if b, err := json.Marshal(m); err == nil {
			p.nodes.Broadcast(b)
		}
	}
}

// workersToSend returns messages about the workers that have changed, or about all.
func (p *Pool) workersToSend(everything bool) (messages []*sentWorkers) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for gone := range slices.Chunk(p.gone, maxSentTurns) {
		messages = append(messages, &sentWorkers{Node: p.nodes.Name(), Gone: gone})
	}
	p.gone = nil
	var m *sentWorkers
	turns := 0
	add := func(w sentWorker) {
		if m == nil || len(m.Workers) == maxSentWorkers || turns+len(w.Turns) > maxSentTurns {
			m, turns = &sentWorkers{Node: p.nodes.Name()}, 0
			messages = append(messages, m)
		}
		m.Workers = append(m.Workers, w)
		turns += len(w.Turns)
	}
	for _, r := range p.locals {
		if !everything && !r.touched {
			continue
		}
		w := sentWorker{ID: r.id, Workspace: r.key.workspace, Agent: r.key.name, Slots: r.slots, Free: max(0, p.room(r)), Given: map[string]int{}}
		for _, t := range r.turns {
			w.Given[t.owner]++
		}
		if w.All = everything || r.claimed; w.All {
			w.Commands = r.commands
			has := append(slices.Collect(maps.Keys(r.turns)), r.claims...)
			for len(has) > maxSentTurns {
				w.Turns, has = has[:maxSentTurns], has[maxSentTurns:]
				add(w)
				w.All, w.Commands = false, nil
			}
			w.Turns = has
		}
		add(w)
		r.touched, r.claimed = false, false
	}
	return messages
}

// HandleBroadcast handles a message of another node about its workers.
func (p *Pool) HandleBroadcast(data []byte) {
	var m sentWorkers
	if json.Unmarshal(data, &m) != nil {
		return // of another version
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range m.Gone {
		if r := p.remotes[remoteID{m.Node, id}]; r != nil {
			p.leave(r)
		}
	}
	for _, w := range m.Workers {
		p.keepRemote(m.Node, w)
	}
}

// keepRemote stores what another node has sent about one of its workers. The caller holds mu.
func (p *Pool) keepRemote(node string, w sentWorker) {
	k := groupKey{w.Workspace, w.Agent}
	g := p.group(k)
	id := remoteID{node, w.ID}
	r := p.remotes[id]
	if r == nil {
		if r = p.newRemote(id, k); r == nil {
			return
		}
		g.workers = append(g.workers, r)
		g.added()
	}
	r.slots, r.remote.free, r.remote.given, r.remote.heard = w.Slots, w.Free, w.Given[p.nodes.Name()], time.Now()
	if w.All {
		r.claims, r.commands = nil, w.Commands
	}
	for _, turn := range w.Turns {
		j := g.byTurn[turn]
		switch {
		case j != nil && j.holder == r:
		case j != nil && j.holder == nil && !j.moving:
			p.give(j, r)
		default:
			r.claims = append(r.claims, turn)
		}
	}
	p.assign(g)
}

// forget removes the workers of nodes that are silent, and uses the slots that were kept for turns that did not come.
func (p *Pool) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.remotes {
		if time.Since(r.remote.heard) > forgetTime {
			p.leave(r)
		}
	}
	for _, g := range p.groups {
		p.assign(g)
	}
}

// here reports whether this node owns the session of a turn.
func (p *Pool) here(turn chat.TurnID) bool {
	if p.nodes == nil {
		return true
	}
	node, _ := p.nodes.Owner(turn)
	return node == p.nodes.Name()
}

// checkClaims finds the turns that workers have named and that have ended, and sends the workers their ends. It asks the log: the runner does not
// know the turns of sessions that this node has just taken over.
func (p *Pool) checkClaims(ctx context.Context) {
	p.mu.Lock()
	named := map[chat.TurnID]bool{}
	for _, g := range p.groups {
		for _, r := range g.workers {
			for _, turn := range r.claims {
				if g.byTurn[turn] == nil && p.here(turn) {
					named[turn] = true
				}
			}
		}
	}
	p.mu.Unlock()
	for turn := range named {
		if !p.turns.ended(ctx, turn) {
			delete(named, turn)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.groups {
		for _, r := range g.workers {
			p.release(r, func(turn chat.TurnID) bool { return named[turn] })
		}
	}
}
