package node

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sleep"
)

// Nodes are compared while they are written to. A session's events are chained by their hashes, so two nodes have the same
// events up to one if they have the same hash there. Groups of sessions are compared first, and only those that differ one by one.

const (
	compareGroups = 1024
	compareRounds = 10
	comparePause  = 500 * time.Millisecond
	compareTime   = 10 * time.Minute // for the answer of a node with many sessions
)

// headsCall asks for the ends of sessions. The first call has neither field.
type headsCall struct {
	Groups []int                       `json:"groups,omitempty"` // whose sessions are listed
	At     map[chat.SessionID]chat.Seq `json:"at,omitempty"`     // hashes that are asked for; 0 means the last event
}

type headsReply struct {
	Sums  [][]byte                    `json:"sums,omitempty"` // of each group
	Heads map[chat.SessionID]headAt   `json:"heads,omitempty"`
	Have  map[chat.SessionID]chat.Seq `json:"have,omitempty"` // the last event of each session of At
}

// headAt is an event of a session: its number and its hash.
type headAt struct {
	Seq  chat.Seq `json:"seq"`
	Hash string   `json:"hash"`
}

func groupOf(id chat.SessionID) int {
	sum := sha256.Sum256([]byte(id))
	return int(binary.BigEndian.Uint16(sum[1:])) % compareGroups
}

// heads answers a headsCall.
func (n *Node) heads(ctx context.Context, body []byte) ([]byte, error) {
	var q headsCall
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, chat.Errorf(chat.Invalid, "not a request to compare sessions").Because(err)
	}
	r := headsReply{Heads: map[chat.SessionID]headAt{}, Have: map[chat.SessionID]chat.Seq{}}
	if q.At != nil {
		for id, seq := range q.At {
			last, hash, err := n.opt.Journal.Head(id, 0)
			if err == nil && seq > 0 && seq < last {
				_, hash, err = n.opt.Journal.Head(id, seq)
			}
			if code := chat.CodeOf(err); code == chat.NotFound || code == chat.Gone {
				continue
			} else if err != nil {
				hash = chat.Hash{} // damaged here: it differs from the others
			}
			r.Have[id], r.Heads[id] = last, headAt{min(max(seq, 0), last), hex.EncodeToString(hash[:])}
		}
		return json.Marshal(r)
	}
	sums := make([][sha256.Size]byte, compareGroups) // combined with XOR, because sessions have a different order on each node
	for id, err := range n.opt.Journal.IDs(ctx) {
		if err != nil {
			return nil, err
		}
		g := groupOf(id)
		if q.Groups != nil && !slices.Contains(q.Groups, g) {
			continue
		}
		last, hash, err := n.opt.Journal.Head(id, 0)
		if code := chat.CodeOf(err); code == chat.NotFound || code == chat.Gone {
			continue
		}
		if q.Groups != nil {
			r.Heads[id] = headAt{last, hex.EncodeToString(hash[:])}
			continue
		}
		one := sha256.Sum256(fmt.Appendf(nil, "%s %d %x %v", id, last, hash, err != nil))
		for i := range one {
			sums[g][i] ^= one[i]
		}
	}
	if q.Groups == nil {
		for i := range sums {
			r.Sums = append(r.Sums, sums[i][:])
		}
	}
	return json.Marshal(r)
}

// Comparison is the result of Compare.
type Comparison struct {
	Nodes    []string // that were compared
	Sessions int      // that were looked at one by one, because something was written to them or they differ
	Differ   []string // one line for each session that is not the same on all nodes
}

// Compare compares the sessions of all nodes that are heard.
func (n *Node) Compare(ctx context.Context) (res Comparison, err error) {
	res.Nodes = append(n.present(), n.opt.Name)
	slices.Sort(res.Nodes)
	if len(res.Nodes) < 2 {
		return res, chat.Errorf(chat.Unavailable, "no other node is there")
	}
	all, err := n.askHeads(ctx, res.Nodes, headsCall{})
	if err != nil {
		return res, err
	}
	var groups []int
	for g := range compareGroups {
		for _, r := range all[1:] {
			if len(r.Sums) != compareGroups || len(all[0].Sums) != compareGroups {
				return res, errors.New("the nodes do not run the same version")
			}
			if !slices.Equal(r.Sums[g], all[0].Sums[g]) {
				groups = append(groups, g)
				break
			}
		}
	}
	if len(groups) == 0 {
		return res, nil
	}
	if all, err = n.askHeads(ctx, res.Nodes, headsCall{Groups: groups}); err != nil {
		return res, err
	}
	goal := map[chat.SessionID]chat.Seq{} // what each node must reach with the same hash
	for _, r := range all {
		for id, h := range r.Heads {
			goal[id] = max(goal[id], h.Seq)
		}
	}
	res.Sessions = len(goal)
	for round := 0; len(goal) > 0; round++ {
		if all, err = n.askHeads(ctx, res.Nodes, headsCall{At: goal}); err != nil {
			return res, err
		}
		late := map[chat.SessionID]bool{}
		for id, seq := range goal {
			state, line := compareOne(res.Nodes, all, id, seq)
			switch {
			case state == same:
				delete(goal, id)
			case state == behind && round < compareRounds:
				late[id] = true
			default:
				res.Differ = append(res.Differ, line)
				delete(goal, id)
			}
		}
		if len(late) > 0 {
			if err := sleep.For(ctx, comparePause); err != nil {
				return res, err
			}
		}
	}
	slices.Sort(res.Differ)
	return res, nil
}

type sameness int

const (
	same   sameness = iota
	behind          // a node may not have applied it yet
	differs
)

// compareOne compares a session at an event.
func compareOne(nodes []string, all []headsReply, id chat.SessionID, seq chat.Seq) (sameness, string) {
	hashes, without := map[string][]string{}, []string(nil)
	for i, r := range all {
		h, there := r.Heads[id]
		if !there || r.Have[id] < seq {
			without = append(without, nodes[i])
			continue
		}
		hashes[h.Hash] = append(hashes[h.Hash], nodes[i])
	}
	switch {
	case len(hashes) > 1:
		return differs, fmt.Sprintf("session %s: event %d is not the same on nodes %v", id, seq, slices.Sorted(maps.Values(joined(hashes))))
	case len(without) == len(nodes):
		return same, "" // erased meanwhile
	case len(without) > 0:
		return behind, fmt.Sprintf("session %s: nodes %v lack event %d", id, without, seq)
	}
	return same, ""
}

func joined(of map[string][]string) map[string]string {
	out := map[string]string{}
	for hash, names := range of {
		out[hash] = fmt.Sprint(names)
	}
	return out
}

// askHeads asks all nodes, this one included.
func (n *Node) askHeads(ctx context.Context, nodes []string, q headsCall) ([]headsReply, error) {
	ctx, cancel := context.WithTimeout(ctx, compareTime)
	defer cancel()
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	all, errs := make([]headsReply, len(nodes)), make([]error, len(nodes))
	var tasks sync.WaitGroup
	for i, name := range nodes {
		tasks.Go(func() {
			var b []byte
			var err error
			if name == n.opt.Name {
				b, err = n.heads(ctx, body)
			} else {
				b, err = n.ask(ctx, name, n.parts[0], message{kind: msgHeads, body: body})
			}
			if err == nil {
				err = json.Unmarshal(b, &all[i])
			}
			if err != nil {
				errs[i] = fmt.Errorf("node %s: %w", name, err)
			}
		})
	}
	tasks.Wait()
	return all, errors.Join(errs...)
}
