package node

import (
	"context"
	"sync"
)

// heard returns the function that takes what other nodes broadcast or tell. Each partition has a goroutine in tasks that shows its
// previews.
func (n *Node) heard(ctx context.Context, tasks *sync.WaitGroup, t Transport) func(data []byte) {
	queues := make([]chan *sentPreviews, len(n.parts))
	for i, p := range n.parts {
		queue := make(chan *sentPreviews, 1024)
		queues[i] = queue
		tasks.Go(func() { n.showQueued(ctx, p, queue, t) })
	}
	return func(data []byte) {
		switch {
		case len(data) > 0 && data[0] == msgPeer:
			if n.peer != nil {
				n.peer.HandleBroadcast(data[1:])
			}
			return
		case len(data) > 0 && data[0] == msgDialects:
			if n.opt.ToDialects != nil {
				n.opt.ToDialects(data[1:])
			}
			return
		case len(data) > 0 && data[0] == msgStored:
			if s, ok := readStored(data[1:]); ok && s.partition < len(n.parts) {
				n.parts[s.partition].unstored.stored(&s)
				return
			}
		case len(data) > 0 && data[0] == msgPreviews:
			if m, ok := readPreviews(data[1:]); ok && m.partition < len(queues) {
				select {
				case queues[m.partition] <- m:
				default: // the next piece shows that one is missing
				}
				return
			}
		}
		n.log.Warn("a message of another node cannot be read; do all nodes run the same version?")
	}
}
