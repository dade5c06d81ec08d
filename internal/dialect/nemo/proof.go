package nemo

import (
	"errors"
	"sync"
	"time"

	"github.com/parley-hq/parley/internal/wire"
)

// Bounds of a socket whose client has not authenticated. A message with a token
// is far smaller than a frame of a known client may be.
const (
	maxUnprovenFrame = 64 << 10
	maxUnproven      = 32   // sockets per address
	maxUnprovenAll   = 1024 // sockets
)

// errUnproven ends a socket whose client did not authenticate in time.
var errUnproven = errors.New("no authentication in time: send auth_message first, or a token with the request")

// proof is a socket's place among those that wait for authentication. The methods
// of a nil proof do nothing.
type proof struct {
	d       *Dialect
	address string
	timer   *time.Timer
	once    sync.Once
}

// awaitProof takes a place for a socket from an address; nil means that there is
// none left.
func (d *Dialect) awaitProof(address string) *proof {
	if !d.unproven.Take(address) {
		return nil
	}
	return &proof{d: d, address: address}
}

// start ends the socket when its client takes too long.
func (p *proof) start(s *socket) {
	if p == nil {
		return
	}
	p.timer = time.AfterFunc(p.d.opt.AuthTimeout, func() {
		_ = s.conn.CloseWith(wire.ClosePolicy, errUnproven.Error()) // the client may have gone already
		s.cancel(errUnproven)
	})
}

// end gives the place back, once.
func (p *proof) end() {
	if p == nil {
		return
	}
	p.once.Do(func() {
		if p.timer != nil {
			p.timer.Stop()
		}
		p.d.unproven.Release(p.address)
	})
}

// proven lifts the bounds. The goroutine that reads calls it.
func (s *socket) proven() {
	if s.proof == nil {
		return
	}
	s.proof.end()
	s.proof = nil
	s.conn.SetMaxMessage(s.d.opt.MaxFrame)
}
