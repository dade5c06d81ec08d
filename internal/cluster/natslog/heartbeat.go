package natslog

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/json"
)

func (l *Log) beats() string { return "parley.beat." + l.opt.Cluster }

// SendHeartbeat sends a heartbeat to the other nodes. It does not block, and the heartbeat may be lost.
func (l *Log) SendHeartbeat(h cluster.Heartbeat) {
	b, err := json.Marshal(h)
	if err == nil {
		err = l.conn.Publish(l.beats(), b)
	}
	if err != nil {
		l.log.Debug("a heartbeat could not be sent", "err", err)
	}
}

// Heartbeats calls f for each heartbeat of another node, one after the other, until stop is called.
func (l *Log) Heartbeats(f func(cluster.Heartbeat)) (stop func(), err error) {
	sub, err := l.conn.Subscribe(l.beats(), func(m *nats.Msg) {
		var h cluster.Heartbeat
		if err := json.Unmarshal(m.Data, &h); err != nil {
			l.log.Warn("a heartbeat cannot be read", "err", err)
			return
		}
		f(h)
	})
	if err != nil {
		return nil, fmt.Errorf("heartbeats of the nodes: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // the connection may be closed
}
