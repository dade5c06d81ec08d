package nemo

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
)

// A consent prompt is answered by the page that the authorization server redirects to: /auth/redirect?state=…&code=….
// The prompt is the open one whose URL has that state. The query, without the state, becomes the answer.

const (
	maxWaiting  = 500 // sessions that are searched for a state
	maxSearches = 16  // requests that search or wait for it
)

// consents limits the search for prompts, which anybody can start, and keeps where to search.
type consents struct {
	searching chan struct{} // one request at a time
	waiting   chan struct{} // requests that search or wait for it

	mu         sync.Mutex
	workspaces []string // with NeMo clients
}

func newConsents() *consents {
	return &consents{searching: make(chan struct{}, 1), waiting: make(chan struct{}, maxSearches), workspaces: []string{chat.DefaultWorkspace}}
}

func (c *consents) addWorkspace(workspace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.workspaces, workspace) && len(c.workspaces) < 100 {
		c.workspaces = append(c.workspaces, workspace)
	}
}

// handleRedirect stores the answer of an authorization server.
func (d *Dialect) handleRedirect(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	state := q.Get("state")
	if state == "" || len(state) > 4096 || q.Get("code") == "" && q.Get("error") == "" {
		writePage(w, http.StatusBadRequest, "This sign-in cannot be finished", "The address lacks a state, or a code. Go back to the conversation and begin again.", false)
		return
	}
	answer := url.Values{}
	for _, k := range []string{"code", "error", "error_description", "iss", "scope"} {
		if v := q.Get(k); v != "" {
			answer.Set(k, cutBytes(v, 4096))
		}
	}
	c, err := d.opt.Caller(r)
	id, prompt, err := d.findConsent(r.Context(), state, c, err == nil)
	if err == nil && prompt == nil {
		writePage(w, http.StatusBadRequest, "This sign-in is not expected", "It was finished before, took too long, or was begun elsewhere. Go back to the conversation and begin again.", false)
		return
	}
	if err == nil {
		_, err = d.opt.Sessions.Answer(r.Context(), chat.Trusted, id, prompt.RequestID, chat.Answer{Text: answer.Encode()})
	}
	switch {
	case err != nil && chat.CodeOf(err) == chat.Internal:
		d.log.ErrorContext(r.Context(), "redirect failed", "err", err)
		writePage(w, http.StatusInternalServerError, "Something went wrong", "Go back to the conversation and begin again.", false)
	case chat.CodeOf(err) == chat.SlowDown:
		edge.SetErrorHeaders(w.Header(), chat.Public(err))
		writePage(w, http.StatusTooManyRequests, "This sign-in cannot be finished yet", chat.Public(err).Msg, false)
	case err != nil:
		writePage(w, http.StatusBadRequest, "This sign-in cannot be finished", chat.Public(err).Msg, false)
	case q.Get("error") != "":
		writePage(w, http.StatusOK, "The sign-in was refused", "The agent has the answer. You can close this window.", false)
	default:
		writePage(w, http.StatusOK, "Signed in", "You can close this window and go back to the conversation.", true)
	}
}

// findConsent finds the open prompt of a state: the one whose URL has it, or, for a caller who may see the session, the
// one with this id, which /executions gives out for URLs without a state.
func (d *Dialect) findConsent(ctx context.Context, state string, c chat.Caller, known bool) (chat.SessionID, *chat.Prompt, error) {
	if id, ok := chat.ParseID("", state); ok && known {
		if sess, seq, err := d.opt.Sessions.ByID(ctx, c, id); err == nil {
			p, err := d.consentPrompt(ctx, sess.ID, func(p *chat.Prompt) bool { return p.Seq == seq })
			if err != nil || p != nil {
				return sess.ID, p, err
			}
		}
	}
	select {
	case d.consents.waiting <- struct{}{}:
		defer func() { <-d.consents.waiting }()
	default:
		return "", nil, chat.Errorf(chat.SlowDown, "Too many sign-ins are being finished at once. Reload this page in a moment.")
	}
	select {
	case d.consents.searching <- struct{}{}:
		defer func() { <-d.consents.searching }()
	case <-ctx.Done():
		return "", nil, context.Cause(ctx)
	}
	if known {
		d.consents.addWorkspace(c.In())
	}
	d.consents.mu.Lock()
	workspaces := slices.Clone(d.consents.workspaces)
	d.consents.mu.Unlock()
	// A session that changes while the list is read moves to its front and may be missed: the front is read again.
	var since chat.At
	for range 3 {
		started := d.now()
		for _, workspace := range workspaces {
			id, p, err := d.searchConsent(ctx, workspace, state, since)
			if err != nil || p != nil {
				return id, p, err
			}
		}
		since = started - 2e6 // for clocks that differ a little
	}
	return "", nil, nil
}

// searchConsent searches the waiting sessions of a workspace that have changed since then, the latest first.
func (d *Dialect) searchConsent(ctx context.Context, workspace, state string, since chat.At) (chat.SessionID, *chat.Prompt, error) {
	all, n := chat.Trusted, 0
	all.Workspace = workspace
	for sess, err := range d.opt.Sessions.ListAll(ctx, all, core.Filter{Status: chat.Waiting, Limit: 100}) {
		if n++; err != nil || n > maxWaiting || sess.UpdatedAt < since {
			return "", nil, err
		}
		p, err := d.consentPrompt(ctx, sess.ID, func(p *chat.Prompt) bool { return stateOf(p.Input) == state })
		if err != nil || p != nil {
			return sess.ID, p, err
		}
	}
	return "", nil, nil
}

// consentPrompt returns the open consent prompt of a session that fits, or nil.
func (d *Dialect) consentPrompt(ctx context.Context, id chat.SessionID, fits func(*chat.Prompt) bool) (*chat.Prompt, error) {
	st, err := d.opt.Sessions.State(ctx, chat.Trusted, id)
	if code := chat.CodeOf(err); err != nil && (code == chat.NotFound || code == chat.Gone) {
		return nil, nil // erased meanwhile
	}
	if err != nil {
		return nil, err
	}
	for _, p := range st.Prompts {
		if p.Input != nil && p.Input.InputType == chat.InputOAuth && fits(p) {
			return p, nil
		}
	}
	return nil, nil
}

// stateOf is the state in the URL of a consent prompt, "" when it has none.
func stateOf(in *chat.AgentInputRequest) string {
	u, err := url.Parse(cmp.Or(in.URL, in.Text))
	if err != nil {
		return ""
	}
	return u.Query().Get("state")
}

// closeScript reports success to the page that opened the window, and closes the window.
const closeScript = `if(window.opener)window.opener.postMessage({type:"AUTH_SUCCESS"},"*");window.close();`

var closeScriptHash = func() string {
	sum := sha256.Sum256([]byte(closeScript))
	return base64.StdEncoding.EncodeToString(sum[:])
}()

// writePage writes the page that the authorization server redirects to.
func writePage(w http.ResponseWriter, status int, title, text string, done bool) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'sha256-"+closeScriptHash+"'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer") // the URL has a code
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	script := ""
	if done {
		script = "<script>" + closeScript + "</script>"
	}
	_, _ = fmt.Fprintf(w, "<!doctype html><meta charset=utf-8><title>%[1]s</title><h1>%[1]s</h1><p>%[2]s</p>%[3]s\n",
		html.EscapeString(title), html.EscapeString(text), script)
}
