package grant

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/url"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Types of the events in sys-shares.
const (
	putType     = "share.put"
	withdrawnTo = "share.revoked"
)

// Share is something that an agent shows to people outside of the conversation:
// files of its session under a link.
type Share struct {
	ID        string          `json:"share_id"`
	Session   chat.SessionID  `json:"session_id"`
	Workspace string          `json:"workspace"`
	Title     string          `json:"title,omitempty"`
	Type      string          `json:"share_type,omitempty"`
	Path      string          `json:"path,omitempty"`        // of a file of the session
	Entry     string          `json:"entry_point,omitempty"` // of several, the one to begin with
	URL       string          `json:"url,omitempty"`
	Files     json.RawMessage `json:"files,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	Public    bool            `json:"public"`  // the link is enough; otherwise one must be of the workspace
	Link      string          `json:"link"`    // nobody can guess it
	Version   int             `json:"version"` // how often it was put
	Event     chat.EventID    `json:"event_id"`
	By        chat.Actor      `json:"created_by"`
	CreatedAt chat.At         `json:"created_at,omitzero"`
	UpdatedAt chat.At         `json:"updated_at,omitzero"`
	RevokedBy *chat.Actor     `json:"revoked_by,omitempty"`
	RevokedAt chat.At         `json:"revoked_at,omitzero"`
}

// begin is the file that a link leads to, "" when it is none.
func (s *Share) begin() string { return first(s.Entry, s.Path) }

// Shares keeps the shares of all workspaces.
type Shares struct {
	sessions sessions
	books    books[*shares]
	follow   follower // what agents say that they share
}

// shares are those of one workspace.
type shares struct {
	workspace string
	byKey     map[string]*Share // session/share
	byLink    map[string]*Share
	list      []*Share
	events    map[chat.EventID]bool // that became a share
}

// NewShares returns the shares in the log.
func NewShares(s sessions) *Shares {
	ss := &Shares{sessions: s, books: books[*shares]{sessions: s, name: "sys-shares", title: "Shares", empty: func(workspace string) *shares {
		return &shares{workspace: workspace, byKey: map[string]*Share{}, byLink: map[string]*Share{}, events: map[chat.EventID]bool{}}
	}}}
	ss.follow = follower{sessions: s, typ: chat.AgentShare{}.Type(), take: func(ctx context.Context, e *chat.Event) error {
		_, err := ss.Shared(ctx, e, e.Actor)
		return err
	}}
	return ss
}

func key(id chat.SessionID, share string) string { return string(id) + "/" + share }

// apply follows the log.
func (b *shares) apply(e *chat.Event) {
	switch e.Type {
	case putType:
		var s Share
		if json.Unmarshal(e.Payload, &s) != nil {
			return
		}
		s.Workspace, s.UpdatedAt, s.CreatedAt = b.workspace, e.At, e.At
		b.events[s.Event] = true
		if old := b.byKey[key(s.Session, s.ID)]; old != nil {
			delete(b.byLink, old.Link)
			s.CreatedAt, s.Version = old.CreatedAt, old.Version+1
			*old = s
		} else {
			s.Version = 1
			b.byKey[key(s.Session, s.ID)] = &s
			b.list = append(b.list, &s)
		}
		b.byLink[s.Link] = b.byKey[key(s.Session, s.ID)]
	case withdrawnTo:
		var r struct {
			Share   string         `json:"share_id"`
			Session chat.SessionID `json:"session_id"`
			By      chat.Actor     `json:"by"`
		}
		if json.Unmarshal(e.Payload, &r) != nil {
			return
		}
		if s := b.byKey[key(r.Session, r.Share)]; s != nil {
			s.RevokedBy, s.RevokedAt = &r.By, e.At
		}
	}
}

// byHTTP begins the idempotency keys of shares that came by HTTP: their record is
// made by the request itself, which knows who asked.
const byHTTP = "share:"

// Put shares something in a session: it is an event of the session, and the
// record follows from it. A share_id that is there already is updated in place and
// keeps its link. The session's agent may, and those who may answer in it.
func (ss *Shares) Put(ctx context.Context, c chat.Caller, id chat.SessionID, payload json.RawMessage, clientID string) (Share, error) {
	var s Share
	if json.Unmarshal(payload, &s) != nil {
		return Share{}, chat.Errorf(chat.Invalid, "a share is an object {share_id, title, share_type, path, entry_point, files, public}")
	}
	if len(s.ID) > 128 || len(s.Title) > 1024 {
		return Share{}, chat.Errorf(chat.Invalid, "a share_id has at most 128 bytes, a title 1024")
	}
	if s.begin() == "" && s.URL == "" && len(s.Files) == 0 {
		return Share{}, chat.Errorf(chat.Invalid, "what is shared? Give path, entry_point, files or url")
	}
	if s.URL != "" && !webAddress(s.URL) {
		return Share{}, chat.Errorf(chat.Invalid, "the url of a share begins with https:// or http://")
	}
	sess, err := ss.sessions.Get(ctx, c, id)
	if err != nil {
		return Share{}, err
	}
	if err := c.May(&sess, chat.Answerer); err != nil {
		return Share{}, err
	}
	as := chat.Trusted
	as.Workspace = sess.Workspace
	if clientID == "" {
		clientID = rand.Text()
	}
	draft := chat.Draft{Type: chat.AgentShare{}.Type(), Payload: payload, ClientID: byHTTP + clientID, Via: via}
	events, err := ss.sessions.Append(ctx, as, sess.ID, []chat.Draft{draft})
	if err != nil {
		return Share{}, err
	}
	made, err := ss.Shared(ctx, &events[0], c.Actor)
	if err != nil {
		return Share{}, err
	}
	return *made, nil
}

// Shared makes a record of an agent.share event. It may be called again with the
// same event.
func (ss *Shares) Shared(ctx context.Context, e *chat.Event, by chat.Actor) (*Share, error) {
	var s Share
	if e.Type != (chat.AgentShare{}).Type() || json.Unmarshal(e.Payload, &s) != nil {
		return nil, chat.Errorf(chat.Invalid, "event %d is no share", e.Seq)
	}
	sess, err := ss.sessions.Get(ctx, chat.Trusted, e.Session)
	if err != nil {
		return nil, err
	}
	b, err := ss.books.open(ctx, sess.Workspace)
	if err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	if s.ID == "" {
		s.ID = string(e.ID)
	}
	if !webAddress(s.URL) {
		s.URL = "" // people will click on it
	}
	s.Session, s.Event, s.By = e.Session, e.ID, chat.Actor{Kind: by.Kind, ID: by.ID, Name: by.Name}
	s.RevokedBy, s.RevokedAt, s.Version, s.Link = nil, 0, 0, ""
	old := b.has.byKey[key(s.Session, s.ID)]
	if !b.has.events[e.ID] {
		if s.Link = rand.Text(); old != nil && old.RevokedBy == nil {
			s.Link = old.Link
		}
		if _, err := b.write(ctx, putType, s, "shared:"+string(e.ID)); err != nil && chat.CodeOf(err) != chat.Conflict {
			return nil, err
		}
	}
	if old = b.has.byKey[key(s.Session, s.ID)]; old == nil {
		return nil, chat.Errorf(chat.NotFound, "the share is not in its book")
	}
	made := *old
	return &made, nil
}

// webAddress reports whether a text is an address that a page may link to.
func webAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")
}

// List returns the shares of a session, or of the whole workspace for "".
func (ss *Shares) List(ctx context.Context, c chat.Caller, workspace string, id chat.SessionID, all bool) ([]Share, error) {
	if err := ss.visible(ctx, c, workspace, id); err != nil {
		return nil, err
	}
	if err := ss.follow.catchUp(ctx, id); err != nil {
		return nil, err
	}
	b, err := ss.books.open(ctx, workspace)
	if err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	out := []Share{}
	for _, s := range b.has.list {
		if s.Session == id && (all || s.RevokedBy == nil) {
			out = append(out, *s)
		}
	}
	return out, nil
}

// visible reports why the caller may not see a session of a workspace.
func (ss *Shares) visible(ctx context.Context, c chat.Caller, workspace string, id chat.SessionID) error {
	if err := enters(c, workspace); err != nil {
		return err
	}
	sess, err := ss.sessions.Get(ctx, c, id)
	if err != nil {
		return err
	}
	if sess.Workspace != workspace {
		return chat.Errorf(chat.NotFound, "there is no session %q in this workspace", clip(string(id)))
	}
	return nil
}

// Get returns one share.
func (ss *Shares) Get(ctx context.Context, c chat.Caller, workspace string, id chat.SessionID, share string) (Share, error) {
	list, err := ss.List(ctx, c, workspace, id, true)
	if err != nil {
		return Share{}, err
	}
	for _, s := range list {
		if s.ID == share {
			return s, nil
		}
	}
	return Share{}, chat.Errorf(chat.NotFound, "there is no share %q in this session", clip(share))
}

// Revoke makes a share's link lead nowhere.
func (ss *Shares) Revoke(ctx context.Context, c chat.Caller, workspace string, id chat.SessionID, share string) (Share, error) {
	s, err := ss.Get(ctx, c, workspace, id, share)
	if err != nil {
		return Share{}, err
	}
	sess, err := ss.sessions.Get(ctx, c, id)
	if err == nil && !s.By.Same(c.Actor) {
		err = c.May(&sess, chat.Answerer)
	}
	if err != nil {
		return Share{}, err
	}
	b, err := ss.books.open(ctx, workspace)
	if err != nil {
		return Share{}, err
	}
	defer b.mu.Unlock()
	now := b.has.byKey[key(id, share)]
	if now.RevokedBy == nil {
		if _, err := b.write(ctx, withdrawnTo, map[string]any{"session_id": id, "share_id": share, "by": c.Actor}, "revoke:"+now.Link); err != nil && chat.CodeOf(err) != chat.Conflict {
			return Share{}, err
		}
	}
	return *now, nil
}

// ByLink returns the share behind a link. A public one is for everybody, others
// for callers of the workspace; ok tells whether there is a caller.
func (ss *Shares) ByLink(ctx context.Context, c chat.Caller, ok bool, workspace, link string) (Share, error) {
	none := chat.Errorf(chat.NotFound, "this link leads nowhere")
	if chat.SessionID(workspace).Validate() != nil {
		return Share{}, none
	}
	// Anybody may ask: only a workspace that has shares gets a record in memory.
	if ok, err := ss.books.exists(ctx, workspace); err != nil || !ok {
		return Share{}, cmp.Or(err, error(none))
	}
	b, err := ss.books.open(ctx, workspace)
	if err != nil {
		return Share{}, err
	}
	s := b.has.byLink[link]
	if s != nil {
		copied := *s
		s = &copied
	}
	b.mu.Unlock()
	switch {
	case s == nil || !s.Public && (!ok || c.In() != workspace && !c.Administers(workspace)):
		return Share{}, none
	case s.RevokedBy != nil:
		return Share{}, chat.Errorf(chat.Gone, "this share was revoked")
	}
	if _, err := ss.sessions.Get(ctx, chat.Trusted, s.Session); err != nil {
		if code := chat.CodeOf(err); code == chat.Gone || code == chat.NotFound {
			return Share{}, chat.Errorf(chat.Gone, "the session that this share was part of was erased")
		}
		return Share{}, err
	}
	return *s, nil
}
