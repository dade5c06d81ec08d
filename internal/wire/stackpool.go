package wire

import "time"

// stackPoolIdle is how long a goroutine of a StackPool waits for more work.
const stackPoolIdle = 100 * time.Millisecond

// StackPool runs functions in goroutines that wait for a moment after their work, so
// that the next function can use a stack that has grown already. It is for short
// functions with a deep stack that are started thousands of times a second. It may
// be used by any goroutine.
type StackPool struct{ work chan func() }

// NewStackPool returns a pool without goroutines.
func NewStackPool() *StackPool { return &StackPool{work: make(chan func())} }

// Go runs f in a waiting goroutine, else in a new one.
func (p *StackPool) Go(f func()) {
	select {
	case p.work <- f:
	default:
		go p.run(f)
	}
}

func (p *StackPool) run(f func()) {
	f()
	idle := time.NewTimer(stackPoolIdle)
	defer idle.Stop()
	for {
		select {
		case f = <-p.work:
			f()
			idle.Reset(stackPoolIdle)
		case <-idle.C:
			return
		}
	}
}
