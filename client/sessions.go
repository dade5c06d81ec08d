package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/parley-hq/parley/chat"
)

// NewSession describes a new session. The zero value is a session with an
// id made by the server, answered by its default agent.
type NewSession = chat.NewSession

// Create creates a session. With an ID it may be repeated: the same request by the
// same caller returns the existing session.
func (c *Client) Create(ctx context.Context, s NewSession) (chat.Session, error) {
	return do[chat.Session](ctx, c, call{method: http.MethodPost, path: "/sessions", in: s, safe: s.ID != ""})
}

func sessionPath(id chat.SessionID, rest string) string {
	return "/sessions/" + url.PathEscape(string(id)) + rest
}

// Get returns a session's record.
func (c *Client) Get(ctx context.Context, id chat.SessionID) (chat.Session, error) {
	return do[chat.Session](ctx, c, call{method: http.MethodGet, path: sessionPath(id, ""), safe: true})
}

// SessionQuery narrows a list of sessions.
type SessionQuery struct {
	Agent    string
	User     string // id of a user that owns the session or is a member of it
	Status   chat.Status
	Archived *bool     // only archived sessions, or only others; nil means both
	Since    time.Time // last active at this time or later; zero means no bound
	Until    time.Time // last active before this time; zero means no bound
	Query    string    // words in title, summary or id
	Limit    int       // of one page; 0 means the server's default
	Cursor   string    // from the page before
}

// List returns one page of sessions, the most recently active first.
func (c *Client) List(ctx context.Context, q SessionQuery) (chat.SessionPage, error) {
	v := url.Values{}
	set(v, "agent", q.Agent)
	set(v, "user", q.User)
	set(v, "status", string(q.Status))
	if q.Archived != nil {
		v.Set("archived", strconv.FormatBool(*q.Archived))
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	if !q.Until.IsZero() {
		v.Set("until", q.Until.Format(time.RFC3339Nano))
	}
	set(v, "q", q.Query)
	set(v, "cursor", q.Cursor)
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return do[chat.SessionPage](ctx, c, call{method: http.MethodGet, path: "/sessions", query: v, safe: true})
}

func set(v url.Values, key, value string) {
	if value != "" {
		v.Set(key, value)
	}
}

// Sessions walks over all pages. It ends after the first error.
func (c *Client) Sessions(ctx context.Context, q SessionQuery) iter.Seq2[chat.Session, error] {
	return func(yield func(chat.Session, error) bool) {
		for {
			page, err := c.List(ctx, q)
			if err != nil {
				yield(chat.Session{}, err)
				return
			}
			for _, s := range page.Sessions {
				if !yield(s, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			q.Cursor = page.Next
		}
	}
}

// Update changes the fields of a session that are set, and only those.
func (c *Client) Update(ctx context.Context, id chat.SessionID, change chat.SessionUpdated) (chat.Session, error) {
	return do[chat.Session](ctx, c, call{method: http.MethodPatch, path: sessionPath(id, ""), in: change, safe: true})
}

// Delete erases a session and all that belongs to it. This cannot be undone.
func (c *Client) Delete(ctx context.Context, id chat.SessionID) (chat.Receipt, error) {
	return do[chat.Receipt](ctx, c, call{method: http.MethodDelete, path: sessionPath(id, "")})
}

// Agent is an agent of the server.
type Agent struct {
	Name        string              `json:"name"`
	Kind        string              `json:"kind"`
	Description string              `json:"description,omitempty"`
	Starters    []string            `json:"starters,omitempty"`
	Commands    []chat.AgentCommand `json:"commands,omitempty"`
	Healthy     bool                `json:"healthy"`
	Problem     string              `json:"problem,omitempty"` // why not, as far as it is known
	Default     bool                `json:"default,omitempty"` // answers sessions that name no agent
	Workers     int                 `json:"workers,omitempty"`
	Running     int                 `json:"running,omitempty"`
}

// Agents lists the agents of the server.
func (c *Client) Agents(ctx context.Context) ([]Agent, error) {
	var out struct {
		Agents []Agent `json:"agents"`
	}
	err := c.do(ctx, call{method: http.MethodGet, path: "/agents", safe: true}, &out)
	return out.Agents, err
}
