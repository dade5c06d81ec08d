package nemo

import (
	"context"
	"strings"
	"sync"

	"github.com/parley-hq/parley/chat"
)

// comeBack takes up the conversations of a client that does not say what it
// comes back to: those that its identity and browser followed on a connection
// that broke a moment ago, or in the page that is being loaded again. A client
// that closed its connection has turned to something else and does not want them.
func (s *socket) comeBack(ctx context.Context, c chat.Caller) {
	page, err := s.d.opt.Sessions.List(ctx, c, chat.Filter{Workspace: c.In(), Actor: &c.Actor, Limit: maxPlaces})
	if err != nil {
		s.d.log.WarnContext(ctx, "nothing could be taken up again", "err", err)
		return
	}
	for _, sess := range page.Sessions {
		key := s.deskKey(c, sess.ID)
		s.d.desk.dismiss(key, s)
		if name := s.d.desk.left(key, sess); name != "" {
			s.follow(ctx, c, name, "")
		}
	}
}

// dismiss ends the connections of a conversation that do not answer, other than s.
func (d *desk) dismiss(key string, s *socket) {
	d.mu.Lock()
	var old []*thread
	if h := d.homes[key]; h != nil {
		old = append(old, h.live...)
	}
	d.mu.Unlock()
	var wait sync.WaitGroup
	for _, o := range old {
		if o.s == s {
			continue
		}
		wait.Go(func() {
			if !o.s.answers(s.d.opt.Gone) {
				o.s.kick(s.d.opt.Gone)
			}
		})
	}
	wait.Wait()
}

// left is the client's name for a conversation that it was cut off from a moment
// ago, and has not come back to; "" when it is not so.
func (d *desk) left(key string, sess chat.Session) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.homes[key]
	if h == nil {
		return ""
	}
	last, ok := h.awaited(d.marks.now())
	switch {
	case !ok || last.how == turned || d.marks.now().Sub(last.when) > last.patience():
		return ""
	case last.conversation != "":
		return last.conversation
	case strings.HasPrefix(string(sess.ID), "s-"):
		return "" // made by the server: the client has another name for it, which only it knows
	}
	return string(sess.ID)
}
