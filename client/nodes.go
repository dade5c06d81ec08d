package client

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
)

// apiPath is the path of the native dialect on a server.
const apiPath = "/parley/v1"

// addresses splits the addresses of a server or of the nodes of a cluster.
func addresses(list string) []string {
	all := strings.Split(cmp.Or(list, DefaultURL), ",")
	for i := range all {
		all[i] = strings.TrimRight(strings.TrimSpace(all[i]), "/")
	}
	return all
}

func (c *Client) address(node int64) string { return c.nodes[int(node%int64(len(c.nodes)))] }

// pause returns the time to wait after failure n in a row. A node that is down or cannot answer is left for the next one; there
// is no pause before all nodes were tried. used is the node that failed: other calls may have left it already.
func (c *Client) pause(err error, n int, used int64) time.Duration {
	wait := retryAfter(err)
	if chat.CodeOf(err) == chat.Unavailable && len(c.nodes) > 1 {
		c.node.CompareAndSwap(used, used+1)
		if wait == 0 && n < len(c.nodes) {
			return 0
		}
	}
	return max(c.opt.Backoff.pause(n), wait)
}

// limit bounds one attempt of a call that can be repeated, if there are other nodes: a node that is cut off does not answer.
func (c *Client) limit(ctx context.Context, safe bool) (context.Context, context.CancelFunc) {
	if !safe || len(c.nodes) == 1 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, c.opt.IdleTimeout, errCut)
}

// neverSent reports whether a call failed before it was sent, so that it can be sent to another node.
func neverSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
