package node

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Hello is what a process tells all others before and while it is a node: they may not know its cluster yet.
type Hello struct {
	Node      string `json:"node"`
	Addr      string `json:"addr"`                 // where the other nodes reach it, as in the list of all nodes
	Cluster   string `json:"cluster"`              // id of the cluster that its store belongs to; "" if the store is empty
	FromEmpty bool   `json:"from_empty,omitempty"` // the cluster began without sessions, and its log is short
	Whole     bool   `json:"whole,omitempty"`      // it follows the log and can send its store
	Damaged   bool   `json:"damaged,omitempty"`    // its store did not match the log
	State     string `json:"state,omitempty"`      // what it waits for

	Heard time.Time `json:"-"` // when this node got it
}

// HelloEvery is how often a process says hello. A process that was silent for HelloLimit is not present.
const (
	HelloEvery = 500 * time.Millisecond
	HelloLimit = 5 * HelloEvery
)

// Step is what a node does to become a part of a cluster.
type Step int

// The steps.
const (
	Wait  Step = iota // for other nodes
	Begin             // begin a new cluster without sessions
	Adopt             // belong to the cluster of the others; its log has everything
	Copy              // get the store of another node
)

// Plan is the next step of a node that does not have a usable store.
type Plan struct {
	Step    Step
	Cluster string   // to adopt or copy
	From    []string // nodes that can send their store
	Why     string   // what it waits for

	FromEmpty bool // the cluster began without sessions
}

// MakePlan decides how a node becomes a part of a cluster. self is what it says of itself, heard what others have said lately,
// peers are the addresses of all nodes.
//
// Only a node that hears all others, all with empty stores, may begin a cluster, and only the one with the first address. So
// there are never two new clusters, and none beside one whose nodes are down.
func MakePlan(self Hello, heard []Hello, peers []string) Plan {
	var ids, from []string
	fresh := map[string]bool{}
	fromEmpty := false
	for _, h := range heard {
		switch {
		case h.Cluster == "":
			fresh[h.Addr] = true
			continue
		case self.Cluster != "" && h.Cluster != self.Cluster:
			continue
		case !slices.Contains(ids, h.Cluster):
			ids = append(ids, h.Cluster)
		}
		fromEmpty = fromEmpty || h.FromEmpty
		if h.Whole {
			from = append(from, h.Node)
		}
	}
	slices.Sort(ids)
	slices.Sort(from)
	switch {
	case len(ids) > 1:
		return Plan{Why: fmt.Sprintf("the other nodes belong to different clusters, %s; stop those that do not belong here", strings.Join(ids, " and "))}
	case len(ids) == 1 && self.Cluster == "" && fromEmpty:
		return Plan{Step: Adopt, Cluster: ids[0]}
	case len(ids) == 1 && len(from) > 0:
		return Plan{Step: Copy, Cluster: ids[0], From: from, FromEmpty: fromEmpty}
	case len(ids) == 1 || self.Cluster != "":
		return Plan{Why: "it waits for a node of its cluster that has a complete store: " + withoutStore(self, heard, peers)}
	}
	var missing []string
	for _, addr := range peers {
		if addr != self.Addr && !fresh[addr] {
			missing = append(missing, addr)
		}
	}
	switch {
	case len(missing) > 0:
		return Plan{Why: "it waits for the nodes at " + strings.Join(missing, ", ")}
	case self.Addr != slices.Min(peers):
		return Plan{Why: "it waits for the node at " + slices.Min(peers) + ", which begins the cluster"}
	}
	return Plan{Step: Begin}
}

// withoutStore says of each other node why its store cannot be copied.
func withoutStore(self Hello, heard []Hello, peers []string) string {
	var all []string
	for _, addr := range peers {
		if addr == self.Addr {
			continue
		}
		why := "is not heard"
		for _, h := range heard {
			switch {
			case h.Addr != addr:
			case h.Cluster == "":
				why = "has an empty store"
			case self.Cluster != "" && h.Cluster != self.Cluster:
				why = "belongs to another cluster"
			case h.Damaged:
				why = "has a damaged store"
			default:
				why = "has not got its store yet"
			}
		}
		all = append(all, "the node at "+addr+" "+why)
	}
	return strings.Join(all, ", ")
}

// Foreign returns an error if this node must not work with the nodes that it hears: most nodes belong to another cluster, or
// may do so.
func Foreign(self Hello, heard []Hello, nodes int) error {
	own, others := 1, map[string][]string{}
	for _, h := range heard {
		switch h.Cluster {
		case self.Cluster:
			own++
		case "":
		default:
			others[h.Cluster] = append(others[h.Cluster], h.Node+" at "+h.Addr)
		}
	}
	if own > nodes/2 || len(others) == 0 {
		return nil
	}
	var text []string
	for id, names := range others {
		slices.Sort(names)
		text = append(text, fmt.Sprintf("%s to cluster %s", strings.Join(names, " and "), id))
	}
	slices.Sort(text)
	return fmt.Errorf("this data folder belongs to cluster %s, but %s. Nothing was changed. If this folder has the sessions that count, stop the other nodes, empty their data folders and start them again: they copy this one. If the others have them, start this node with an empty folder", self.Cluster, strings.Join(text, ", and "))
}
