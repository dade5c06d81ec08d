package node

import (
	"context"
	"errors"

	"github.com/parley-hq/parley/internal/cluster"
)

// Transport carries messages between nodes.
type Transport interface {
	// Request sends a message about a partition to another node. Messages to one node about one partition arrive in the order
	// of the calls. wait returns the reply, ErrNoNode if the message has certainly not arrived, or another error.
	Request(ctx context.Context, node string, partition int, data []byte) (wait func() ([]byte, error))
	// Broadcast sends a message to all other nodes. It does not wait, and the message may be lost.
	Broadcast(data []byte)
	// Tell sends a message to one other node, as Broadcast does to all of them.
	Tell(node string, data []byte)
	// Listen calls request and heard for the messages of other nodes until stop is called; request one after the other for each
	// partition. Neither may block for long. reply is called once, from any goroutine.
	Listen(partitions int, request func(data []byte, reply func([]byte)), heard func(data []byte)) (stop func(), err error)

	SendHeartbeat(h cluster.Heartbeat)
	Heartbeats(f func(cluster.Heartbeat)) (stop func(), err error)
}

// ErrNoNode means that a message has not arrived, because the node is not there.
var ErrNoNode = errors.New("the node is not there")
