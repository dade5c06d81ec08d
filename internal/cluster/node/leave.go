package node

import (
	"context"
	"errors"

	"github.com/parley-hq/parley/chat"
)

// Drain gives the partitions of a node to others. It takes none until it is restarted. "" is this node.
func (n *Node) Drain(ctx context.Context, name string) error {
	if name != "" && name != n.opt.Name {
		if _, err := n.ask(ctx, name, n.parts[0], message{kind: msgDrain}); err != nil {
			if errors.Is(err, ErrNoNode) || errors.Is(err, context.Canceled) {
				return chat.Errorf(chat.NotFound, "node %s is not there", name)
			}
			return err
		}
		return nil
	}
	before := n.draining.Swap(true)
	if err := n.HandOver(ctx); err != nil {
		n.draining.Store(before)
		return chat.Errorf(chat.Unavailable, "the partitions of node %s could not be given to others: %s", n.opt.Name, err)
	}
	n.log.Info("this node was drained; it takes no partitions until it is restarted")
	if n.opt.Drained != nil {
		n.opt.Drained(ctx)
	}
	return nil
}

// Forget makes all nodes forget one that was removed from the cluster.
func (n *Node) Forget(ctx context.Context, name string) {
	n.forget(name)
	for _, other := range n.present() {
		if _, err := n.ask(ctx, other, n.parts[0], message{kind: msgForget, body: []byte(name)}); err != nil {
			n.log.Warn("a node was not told that another one was removed; it forgets it with its next start", "node", other, "removed", name, "err", err)
		}
	}
}

func (n *Node) forget(name string) {
	for _, p := range n.parts {
		if r := p.get(); r != nil {
			r.Forget(name)
		}
	}
}
