package grant

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/record"
	"github.com/parley-hq/parley/internal/text"
)

// Types of the events in sys-shares.
const (
	sharePut     = "share.put"
	shareRevoked = "share.revoked"
)

// Share is what an agent shows to people outside of the conversation: files of its session, under a link.
type Share struct {
	ID        string          `json:"share_id"`
	Session   chat.SessionID  `json:"session_id"`
	Workspace string          `json:"workspace"`
	Title     string          `json:"title,omitempty"`
	Type      string          `json:"share_type,omitempty"`
	Path      string          `json:"path,omitempty"`        // a file of the session, or a folder with a slash at the end
	Entry     string          `json:"entry_point,omitempty"` // of several files, the first to show
	URL       string          `json:"url,omitempty"`
	Files     json.RawMessage `json:"files,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	Public    bool            `json:"public"`  // the link is enough; otherwise the reader must be of the workspace
	Link      string          `json:"link"`    // random
	Version   int             `json:"version"` // how often it was put
	Event     chat.EventID    `json:"event_id"`
	By        chat.Actor      `json:"created_by"`
	CreatedAt chat.At         `json:"created_at,omitzero"`
	UpdatedAt chat.At         `json:"updated_at,omitzero"`
	RevokedBy *chat.Actor     `json:"revoked_by,omitempty"`
	RevokedAt chat.At         `json:"revoked_at,omitzero"`
}

// firstFile returns the file to show first, "" when there is none.
func (s *Share) firstFile() string { return cmp.Or(s.Entry, s.Path) }

// has reports whether a file is part of the share. Other files of the session are not readable by the link.
func (s *Share) has(path string) bool {
	if path == "" {
		return false
	}
	if path == s.Path || path == s.Entry || strings.HasSuffix(s.Path, "/") && strings.HasPrefix(path, s.Path) {
		return true
	}
	var paths []string
	if json.Unmarshal(s.Files, &paths) == nil && slices.Contains(paths, path) {
		return true
	}
	type file struct {
		Path string `json:"path"`
	}
	var objects []file
	return json.Unmarshal(s.Files, &objects) == nil && slices.Contains(objects, file{path})
}

// shareKey identifies a share.
type shareKey struct {
	session chat.SessionID
	id      string
}

// shares are the shares of one workspace.
type shares struct {
	workspace string
	byKey     map[shareKey]*Share
	byLink    map[string]*Share
	list      []*Share              // by creation
	events    map[chat.EventID]bool // agent.share events that are stored as a share
}

func newShares(workspace string) *shares {
	return &shares{workspace: workspace, byKey: map[shareKey]*Share{}, byLink: map[string]*Share{}, events: map[chat.EventID]bool{}}
}

func sharesIn(workspace string) record.Name {
	return record.InWorkspace("sys-shares", "Shares", workspace)
}

// Apply changes the shares as an event of the log says.
func (ss *shares) Apply(e *chat.Event) {
	switch e.Type {
	case sharePut:
		var s Share
		if json.Unmarshal(e.Payload, &s) != nil {
			return
		}
		s.Workspace, s.UpdatedAt, s.CreatedAt, s.Version = ss.workspace, e.At, e.At, 1
		ss.events[s.Event] = true
		key := shareKey{s.Session, s.ID}
		if old := ss.byKey[key]; old != nil {
			delete(ss.byLink, old.Link)
			s.CreatedAt, s.Version = old.CreatedAt, old.Version+1
			*old = s
		} else {
			ss.byKey[key] = &s
			ss.list = append(ss.list, &s)
		}
		ss.byLink[s.Link] = ss.byKey[key]
	case shareRevoked:
		var r struct {
			Share   string         `json:"share_id"`
			Session chat.SessionID `json:"session_id"`
			By      chat.Actor     `json:"by"`
		}
		if json.Unmarshal(e.Payload, &r) != nil {
			return
		}
		if s := ss.byKey[shareKey{r.Session, r.Share}]; s != nil {
			s.RevokedBy, s.RevokedAt = &r.By, e.At
		}
	}
}

// byHTTP begins the idempotency keys of shares that came by HTTP. The request itself stores them, because it has the
// caller.
const byHTTP = "share:"

// putShare shares something of a session: an agent.share event is appended to the session, and the share is made from it.
// A share_id that exists is updated in place and keeps its link. The session's agent may do so, and members who may
// answer.
func (s *Service) putShare(r request) (int, any, error) {
	if err := r.caller.May(&r.session, chat.Answerer); err != nil {
		return 0, nil, err
	}
	payload, err := s.http.Body(r.Request)
	if err != nil {
		return 0, nil, err
	}
	if name := r.PathValue("share"); name != "" {
		if payload, err = withShareID(payload, name); err != nil {
			return 0, nil, err
		}
	}
	var sh Share
	if json.Unmarshal(payload, &sh) != nil {
		return 0, nil, chat.Errorf(chat.Invalid, "a share is an object {share_id, title, share_type, path, entry_point, files, public}")
	}
	if len(sh.ID) > 128 || len(sh.Title) > 1024 {
		return 0, nil, chat.Errorf(chat.Invalid, "a share_id has at most 128 bytes, a title 1024")
	}
	if sh.firstFile() == "" && sh.URL == "" && len(sh.Files) == 0 {
		return 0, nil, chat.Errorf(chat.Invalid, "a share needs path, entry_point, files or url")
	}
	if sh.URL != "" && !webAddress(sh.URL) {
		return 0, nil, chat.Errorf(chat.Invalid, "the url of a share begins with https:// or http://")
	}
	server := chat.Trusted
	server.Workspace = r.workspace
	d := chat.Draft{Type: chat.AgentShare{}.Type(), Payload: payload, ClientID: byHTTP + cmp.Or(r.Header.Get("Idempotency-Key"), rand.Text()), Via: via}
	events, err := s.sessions.Append(r.Context(), server, r.session.ID, []chat.Draft{d})
	if err != nil {
		return 0, nil, err
	}
	sh, err = s.storeShare(r.Context(), &events[0], r.caller.Actor)
	if sh.Version > 1 {
		return http.StatusOK, withAddress(sh), err
	}
	return http.StatusCreated, withAddress(sh), err
}

// withShareID sets the share_id in the body of a request.
func withShareID(body []byte, id string) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, chat.Errorf(chat.Invalid, "a share is an object").Because(err)
	}
	fields["share_id"] = json.AppendString(nil, id)
	return json.Marshal(fields)
}

// storeShare makes a share of an agent.share event. It may be called again with the same event.
func (s *Service) storeShare(ctx context.Context, e *chat.Event, by chat.Actor) (Share, error) {
	var sh Share
	if e.Type != (chat.AgentShare{}).Type() || json.Unmarshal(e.Payload, &sh) != nil {
		return Share{}, chat.Errorf(chat.Invalid, "event %d is not a share", e.Seq)
	}
	sess, err := s.sessions.Get(ctx, chat.Trusted, e.Session)
	if err != nil {
		return Share{}, err
	}
	sh.ID = cmp.Or(sh.ID, string(e.ID))
	if !webAddress(sh.URL) {
		sh.URL = "" // people will click on it
	}
	sh.Session, sh.Event, sh.By = e.Session, e.ID, nameOf(by)
	sh.RevokedBy, sh.RevokedAt, sh.Version = nil, 0, 0
	err = s.shares.Change(ctx, sharesIn(sess.Workspace), func(tx *record.Tx[*shares]) error {
		key := shareKey{sh.Session, sh.ID}
		if !tx.Value.events[e.ID] {
			sh.Link = rand.Text()
			if old := tx.Value.byKey[key]; old != nil && old.RevokedBy == nil {
				sh.Link = old.Link
			}
			if _, err := tx.Append(ctx, sharePut, sh, "shared:"+string(e.ID)); err != nil {
				return err
			}
		}
		made := tx.Value.byKey[key]
		if made == nil {
			return chat.Errorf(chat.NotFound, "share %q was stored but cannot be read", text.Clip(sh.ID, 80))
		}
		sh = *made
		return nil
	})
	if err != nil {
		return Share{}, err
	}
	return sh, nil
}

// webAddress reports whether a text is an address that a page may link to.
func webAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")
}

// sharesOf returns the shares of a request's session; all includes revoked ones.
func (s *Service) sharesOf(r request, all bool) ([]Share, error) {
	if err := s.shared.run(r.Context(), r.session.ID); err != nil {
		return nil, err
	}
	list := []Share{}
	err := s.shares.View(r.Context(), sharesIn(r.workspace), func(ss *shares) error {
		for _, sh := range ss.list {
			if sh.Session == r.session.ID && (all || sh.RevokedBy == nil) {
				list = append(list, withAddress(*sh))
			}
		}
		return nil
	})
	return list, err
}

func (s *Service) listShares(r request) (int, any, error) {
	q := edge.NewQuery(r.Request)
	all := q.Bool("all", false)
	if q.Err != nil {
		return 0, nil, q.Err
	}
	list, err := s.sharesOf(r, all)
	return http.StatusOK, map[string]any{"shares": list}, err
}

func (s *Service) getShare(r request) (int, any, error) {
	list, err := s.sharesOf(r, true)
	for _, sh := range list {
		if sh.ID == r.PathValue("share") {
			return http.StatusOK, sh, nil
		}
	}
	if err == nil {
		err = chat.Errorf(chat.NotFound, "there is no share %q in this session", text.Clip(r.PathValue("share"), 80))
	}
	return 0, nil, err
}

// revokeShare ends the link of a share. Its creator may do so, and members who may answer.
func (s *Service) revokeShare(r request) (int, any, error) {
	_, found, err := s.getShare(r)
	if err != nil {
		return 0, nil, err
	}
	sh := found.(Share)
	if !sh.By.Same(r.caller.Actor) {
		if err := r.caller.May(&r.session, chat.Answerer); err != nil {
			return 0, nil, err
		}
	}
	err = s.shares.Change(r.Context(), sharesIn(r.workspace), func(tx *record.Tx[*shares]) error {
		now := tx.Value.byKey[shareKey{sh.Session, sh.ID}]
		if now.RevokedBy == nil {
			revoked := map[string]any{"session_id": sh.Session, "share_id": sh.ID, "by": r.caller.Actor}
			if _, err := tx.Append(r.Context(), shareRevoked, revoked, "revoke:"+now.Link); err != nil {
				return err
			}
		}
		sh = *now
		return nil
	})
	return http.StatusOK, withAddress(sh), err
}

// shareByLink returns the share of a link. A public share is readable by everybody, others by callers of the workspace;
// authenticated says whether c is one. Links of workspaces without shares leave nothing in memory.
func (s *Service) shareByLink(ctx context.Context, c chat.Caller, authenticated bool, workspace, link string) (Share, error) {
	none := chat.Errorf(chat.NotFound, "there is no share with this link")
	if chat.SessionID(workspace).Validate() != nil {
		return Share{}, none
	}
	var sh Share
	err := s.shares.View(ctx, sharesIn(workspace), func(ss *shares) error {
		found := ss.byLink[link]
		if found == nil || !found.Public && (!authenticated || c.In() != workspace && !c.Administers(workspace)) {
			return none
		}
		sh = *found
		return nil
	})
	if err != nil {
		return Share{}, err
	}
	if sh.RevokedBy != nil {
		return Share{}, chat.Errorf(chat.Gone, "this share was revoked")
	}
	if _, err := s.sessions.Get(ctx, chat.Trusted, sh.Session); err != nil {
		if code := chat.CodeOf(err); code == chat.Gone || code == chat.NotFound {
			return Share{}, chat.Errorf(chat.Gone, "the session of this share was erased")
		}
		return Share{}, err
	}
	return sh, nil
}
