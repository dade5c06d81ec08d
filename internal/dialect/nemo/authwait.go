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
	maxUnauthenticatedFrame = 64 << 10
	maxUnauthenticated      = 32   // sockets per address
	maxUnauthenticatedTotal = 1024 // sockets
)

// errAuthTimeout ends a socket whose client did not authenticate in time.
var errAuthTimeout = errors.New("no authentication in time: send auth_message first, or a token with the request")

// authWait is a socket's place among those that wait for authentication. The methods
// of a nil proof do nothing.
type authWait struct {
	d       *Dialect
	address string
	timer   *time.Timer
	once    sync.Once
}

// waitForAuth takes a place for a socket from an address; nil means that there is
// none left.
func (d *Dialect) waitForAuth(address string) *authWait {
	if !d.unauthenticated.Take(address) {
		return nil
	}
	return &authWait{d: d, address: address}
}

// start ends the socket when its client takes too long.
func (p *authWait) start(s *socket) {
	if p == nil {
		return
	}
	p.timer = time.AfterFunc(p.d.opt.AuthTimeout, func() {
		_ = s.conn.CloseWith(wire.ClosePolicy, errAuthTimeout.Error()) // the client may have gone already
		s.cancel(errAuthTimeout)
	})
}

// end gives the place back, once.
func (p *authWait) end() {
	if p == nil {
		return
	}
	p.once.Do(func() {
		if p.timer != nil {
			p.timer.Stop()
		}
		p.d.unauthenticated.Release(p.address)
	})
}

// authenticated lifts the bounds. The goroutine that reads calls it.
func (s *socket) authenticated() {
	if s.authWait == nil {
		return
	}
	s.authWait.end()
	s.authWait = nil
	s.conn.SetMaxMessage(s.d.opt.MaxFrame)
}
