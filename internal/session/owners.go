package session

import (
	"context"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// owners counts the sessions of actors. A count is read from the store's index when it is
// first needed and updated from then on, so nothing has to be read when the server starts.
type owners struct {
	mu     sync.Mutex
	counts map[string]owned
}

// owned is the number of sessions of an actor. If it is not exact, it includes other
// owners' sessions in which the actor is a member.
type owned struct {
	sessions int
	exact    bool
}

// maxOwners bounds the counts that are kept.
const maxOwners = 50_000

// add adds n to the count of the session's owner, if that count is cached.
func (o *owners) add(s *chat.Session, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c, ok := o.counts[ownerKey(s)]; ok {
		c.sessions += n
		o.counts[ownerKey(s)] = c
	}
}

// mayOwnMore returns an error if the caller has reached the limit of sessions.
func (s *Sessions) mayOwnMore(ctx context.Context, c chat.Caller) error {
	most := s.opt.Quotas.Sessions
	if most <= 0 || c.Administers(c.In()) {
		return nil
	}
	key := c.In() + "/" + c.Actor.Key()
	s.owners.mu.Lock()
	have, ok := s.owners.counts[key]
	s.owners.mu.Unlock()
	// Use the cheap count first. It is an upper bound and nearly always below the limit.
	if !ok {
		n, err := s.log.Count(ctx, c.In(), c.Actor, false, most)
		if err != nil {
			return err
		}
		have = owned{sessions: n}
		s.owners.set(key, have)
	}
	if have.sessions >= most && !have.exact {
		n, err := s.log.Count(ctx, c.In(), c.Actor, true, most)
		if err != nil {
			return err
		}
		have = owned{sessions: n, exact: true}
		s.owners.set(key, have)
	}
	if have.sessions < most {
		return nil
	}
	return s.overQuota(QuotaSessions, 60, "you have %d sessions, the most that one owner can have here: erase some, or ask the operator to raise --max-sessions", most)
}

func (o *owners) set(key string, c owned) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.counts == nil || len(o.counts) >= maxOwners {
		o.counts = map[string]owned{}
	}
	o.counts[key] = c
}
