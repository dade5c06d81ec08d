package wire

import "time"

// crewIdle is how long a goroutine of a crew waits for more work.
const crewIdle = 100 * time.Millisecond

// Crew runs functions in goroutines that stay for a moment after their work. Work
// that comes thousands of times a second and needs a deep stack would otherwise
// spend much of its time on growing a new one each time. Make one with [NewCrew]; it
// may be used by any goroutine.
type Crew struct{ work chan func() }

// NewCrew returns a crew without anybody in it.
func NewCrew() *Crew { return &Crew{work: make(chan func())} }

// Go runs f in a goroutine: one that is free, else a new one.
func (c *Crew) Go(f func()) {
	select {
	case c.work <- f:
	default:
		go c.run(f)
	}
}

func (c *Crew) run(f func()) {
	f()
	idle := time.NewTimer(crewIdle)
	defer idle.Stop()
	for {
		select {
		case f = <-c.work:
			f()
			idle.Reset(crewIdle)
		case <-idle.C:
			return
		}
	}
}
