package nemo

import (
	"context"
	"strings"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// reattach takes up the conversations of a client that does not say what it
// comes back to: those that its identity and browser followed on a connection
// that broke a moment ago, or in the page that is being loaded again. A client
// that closed its connection has turned to something else and does not want them.
func (s *socket) reattach(ctx context.Context, c chat.Caller) {
	page, err := s.d.opt.Sessions.List(ctx, c, chat.Filter{Workspace: c.In(), Actor: &c.Actor, Limit: maxDeparted})
	if err != nil {
		s.d.log.WarnContext(ctx, "nothing could be taken up again", "err", err)
		return
	}
	for _, sess := range page.Sessions {
		key := s.resumeKey(c, sess.ID)
		s.d.points.closeStale(key, s)
		if name := s.d.points.lostConversation(key, sess); name != "" {
			s.subscribe(ctx, c, name, "")
		}
	}
}

// closeStale ends the connections of a conversation that do not answer, other than s.
func (d *resumePoints) closeStale(key string, s *socket) {
	d.mu.Lock()
	var old []*subscription
	if h := d.byKey[key]; h != nil {
		old = append(old, h.live...)
	}
	d.mu.Unlock()
	var wait sync.WaitGroup
	for _, o := range old {
		if o.s == s {
			continue
		}
		wait.Go(func() {
			if !o.s.respondsToPing(s.d.opt.Gone) {
				o.s.closeReplaced(s.d.opt.Gone)
			}
		})
	}
	wait.Wait()
}

// lostConversation is the client's name for a conversation that it was cut off from a moment
// ago, and has not come back to; "" when it is not so.
func (d *resumePoints) lostConversation(key string, sess chat.Session) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.byKey[key]
	if h == nil {
		return ""
	}
	last, ok := h.lastDeparted(d.file.now())
	switch {
	case !ok || last.reason == clientClosed || d.file.now().Sub(last.when) > last.returnWindow():
		return ""
	case last.conversation != "":
		return last.conversation
	case strings.HasPrefix(string(sess.ID), "s-"):
		return "" // made by the server: the client has another name for it, which only it knows
	}
	return string(sess.ID)
}
