package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/json"
)

// A step of a repair, for one partition. The answer is a repairReport.
const (
	repairLook   = 'l' // what does this node have
	repairHalt   = 'h' // stop following the partition
	repairResume = 'r' // follow the partition again
	repairDrop   = 'd' // get the store of another node
)

const (
	repairTime = 5 * time.Second  // for one step on a node
	renewTime  = 30 * time.Second // for a new log
)

// repairReport is what a node has of a partition.
type repairReport struct {
	Copy   []byte `json:"copy"`
	Halted string `json:"halted,omitempty"` // why it is halted

	node string
	have cluster.Copy
}

// Repair is what is done about a partition whose log is shorter than what nodes have applied.
type Repair struct {
	Partition int
	Last      cluster.Pos // of the log
	Best      string      // the node with the most advanced copy
	Copy      cluster.Copy
	Same      []string // the nodes that have the same copy, Best included
	Behind    []string // the nodes that copy the store of another one
	Apart     []string // those of them that have applied something that Best does not have; it is lost
	Renew     bool     // a new log begins after the position of Copy; otherwise the nodes read on
}

// Repair finds the partitions that are halted because their logs are too short. With apply it replaces these logs by empty ones
// that begin after the most advanced copy, or after that of the node from. It needs the answers of a majority of the nodes of the
// cluster. A store is copied as a whole, so one node must have the chosen copies of all these partitions.
func (n *Node) Repair(ctx context.Context, nodes int, from string, apply bool) ([]Repair, error) {
	logs, ok := n.partitions().(cluster.Renewable)
	if !ok {
		return nil, errNotConnected
	}
	names := append(n.present(), n.opt.Name)
	var parts []*part
	var plan []Repair
	for _, p := range n.parts {
		reports, err := n.repairStep(ctx, p, names, repairLook, nodes)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(reports, func(r repairReport) bool { return r.Halted != "" }) {
			continue
		}
		r, err := n.planRepair(ctx, p, reports, from)
		if err != nil {
			return nil, err
		}
		parts, plan = append(parts, p), append(plan, r)
	}
	if !apply || len(parts) == 0 {
		return plan, nil
	}
	// All partitions are halted before anything is replaced, so that no copy changes any more.
	var err error
	for i, p := range parts {
		var reports []repairReport
		if reports, err = n.repairStep(ctx, p, names, repairHalt, nodes); err == nil && len(reports) < len(names) {
			err = chat.Errorf(chat.Unavailable, "a node did not answer, and it may have the most advanced copy of partition %d; repeat the repair", p.number)
		}
		if err == nil {
			plan[i], err = n.planRepair(ctx, p, reports, from)
		}
		if err != nil {
			break
		}
	}
	keep := keepers(names, plan)
	if err == nil && len(keep) == 0 {
		err = errNoKeeper(plan)
	}
	if err == nil {
		err = n.renew(ctx, logs, plan)
	}
	return plan, n.endRepair(context.WithoutCancel(ctx), parts, names, keep, err)
}

// keepers returns the nodes that have the chosen copy of every partition whose log is replaced.
func keepers(names []string, plan []Repair) (keep []string) {
	for _, name := range names {
		if !slices.ContainsFunc(plan, func(r Repair) bool { return r.Renew && !slices.Contains(r.Same, name) }) {
			keep = append(keep, name)
		}
	}
	return keep
}

func errNoKeeper(plan []Repair) error {
	var best []string
	for _, r := range plan {
		best = append(best, fmt.Sprintf("%s of partition %d", r.Best, r.Partition))
	}
	return chat.Errorf(chat.Conflict, "no node has the most advanced copy of all these partitions (%s), and a store is copied as a whole: start nodes that are missing, or choose the node whose copies are used with --from; what the others have more is lost", strings.Join(best, ", "))
}

// renew replaces the logs.
func (n *Node) renew(ctx context.Context, logs cluster.Renewable, plan []Repair) error {
	for _, r := range plan {
		if !r.Renew {
			continue
		}
		n.log.Warn("the log of a partition is replaced", "partition", r.Partition, "log ends at", r.Last, "begins after", r.Copy.Pos, "as of", r.Best)
		ctx, cancel := context.WithTimeout(ctx, renewTime)
		err := logs.Renew(ctx, r.Partition, r.Copy.Pos)
		cancel()
		if err != nil {
			return chat.Errorf(chat.Unavailable, "the log of partition %d could not be replaced; repeat the repair: %s", r.Partition, err)
		}
	}
	return nil
}

// endRepair lets the nodes follow the partitions again: those in keep as they are, the others with the store of another node. After
// an error all go on as they are; a partition that still cannot be followed is halted again. This node is the last, because it
// leaves the cluster while it copies.
func (n *Node) endRepair(ctx context.Context, parts []*part, names, keep []string, failed error) error {
	if failed != nil {
		keep = names
	}
	for _, p := range parts {
		if _, err := n.repairStep(ctx, p, keep, repairResume, 0); err != nil && failed == nil {
			failed = err
		}
	}
	for _, name := range names { // this node is the last of them
		if slices.Contains(keep, name) {
			continue
		}
		if _, err := n.repairStep(ctx, parts[0], []string{name}, repairDrop, 0); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// planRepair chooses the most advanced copy, or that of the node from.
func (n *Node) planRepair(ctx context.Context, p *part, reports []repairReport, from string) (r Repair, err error) {
	ctx, cancel := context.WithTimeout(ctx, repairTime)
	defer cancel()
	_, last, err := n.partitions().Ends(ctx, p.number)
	if err != nil {
		return r, chat.Errorf(chat.Unavailable, "the log of partition %d does not answer: %s", p.number, err)
	}
	slices.SortFunc(reports, func(a, b repairReport) int {
		return cmp.Or(cmp.Compare(b.have.Pos, a.have.Pos), cmp.Compare(b.have.Epoch, a.have.Epoch), cmp.Compare(a.node, b.node))
	})
	best := reports[0]
	if from != "" {
		i := slices.IndexFunc(reports, func(o repairReport) bool { return o.node == from })
		if i < 0 {
			return r, chat.Errorf(chat.NotFound, "node %s does not answer", from)
		}
		best = reports[i]
	}
	r = Repair{Partition: p.number, Last: last, Best: best.node, Copy: best.have, Renew: last < best.have.Pos}
	for _, o := range reports {
		if o.have == best.have {
			r.Same = append(r.Same, o.node)
			continue
		}
		r.Behind = append(r.Behind, o.node)
		if o.have.Pos >= best.have.Pos || o.have.Epoch > best.have.Epoch {
			r.Apart = append(r.Apart, o.node)
		}
	}
	return r, nil
}

// repairStep asks nodes for a step at the same time. It fails unless a majority of the nodes of the cluster has done it.
func (n *Node) repairStep(ctx context.Context, p *part, names []string, step byte, nodes int) (reports []repairReport, err error) {
	ctx, cancel := context.WithTimeout(ctx, repairTime)
	defer cancel()
	type result struct {
		report repairReport
		err    error
	}
	results := make(chan result, len(names))
	for _, name := range names {
		go func() {
			var b []byte
			var err error
			if name == n.opt.Name {
				b, err = n.serveRepair(ctx, p, []byte{step})
			} else {
				b, err = n.ask(ctx, name, p, message{kind: msgRepair, body: []byte{step}})
			}
			r := repairReport{node: name}
			if err == nil {
				err = json.Unmarshal(b, &r)
			}
			if err == nil {
				r.have, err = cluster.ParseCopy(r.Copy)
			}
			results <- result{r, err}
		}()
	}
	var failed []string
	for range names {
		got := <-results
		if got.err != nil {
			failed = append(failed, fmt.Sprintf("%s (%s)", got.report.node, got.err))
			continue
		}
		reports = append(reports, got.report)
	}
	if len(reports) <= nodes/2 {
		return nil, chat.Errorf(chat.Unavailable, "only %d of %d nodes answer, and a repair needs a majority: start the others, so that the most advanced copy is not missed %v", len(reports), nodes, failed)
	}
	return reports, nil
}

// serveRepair does a step of a repair on this node.
func (n *Node) serveRepair(ctx context.Context, p *part, body []byte) ([]byte, error) {
	if len(body) != 1 {
		return nil, chat.Errorf(chat.Invalid, "not a step of a repair")
	}
	switch body[0] {
	case repairHalt:
		ctx, cancel := context.WithTimeout(ctx, repairTime)
		defer cancel()
		if err := p.halt(ctx); err != nil {
			return nil, err
		}
	case repairResume:
		p.resume(false)
	case repairDrop:
		p.resume(true)
	}
	r := repairReport{Copy: p.status().Copy.Append(nil)}
	if err := p.haltedBy(); err != nil {
		r.Halted = err.Error()
	}
	return json.Marshal(r)
}
