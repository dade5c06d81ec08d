package nemo

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
)

// returning is how long after its connection broke a client is taken for the
// one that comes back without a name.
const returning = time.Minute

// comeBack takes up the conversations of a client that does not say what it
// comes back to: those that its identity and browser followed on a connection
// that broke a moment ago. A client that took its leave has turned to something
// else and does not want them.
func (s *socket) comeBack(ctx context.Context, c chat.Caller) {
	page, err := s.d.opt.Sessions.List(ctx, c, chat.Filter{Workspace: c.In(), Actor: &c.Actor, Limit: maxPlaces})
	if err != nil {
		s.d.log.WarnContext(ctx, "nothing could be taken up again", "err", err)
		return
	}
	for _, sess := range page.Sessions {
		key := s.deskKey(c, sess.ID)
		s.d.desk.dismiss(key, s)
		if name := s.d.desk.broken(key, sess); name != "" {
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

// broken is the client's name for a conversation that nobody follows now and
// whose last connection broke a moment ago; "" when it is not so.
func (d *desk) broken(key string, sess chat.Session) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.homes[key]
	if h == nil || len(h.live) > 0 || len(h.left) == 0 {
		return ""
	}
	last := h.left[len(h.left)-1]
	switch {
	case last.parted || d.marks.now().Sub(last.when) > returning:
		return ""
	case last.conversation != "":
		return last.conversation
	case strings.HasPrefix(string(sess.ID), "s-"):
		return "" // made by the server: the client has another name for it, which only it knows
	}
	return string(sess.ID)
}
