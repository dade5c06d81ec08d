package nemo

import (
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
)

// A consent prompt is ended by the page that the authorization server sends the
// person back to: /auth/redirect?state=…&code=…. The state is the one in the
// address that the agent gave; who knows it was sent there by that prompt. What
// the authorization server says becomes the answer, so that the agent can go on.

// maxWaiting bounds the conversations that are searched for a state.
const maxWaiting = 500

// maxSearches bounds the requests that wait for a search.
const maxSearches = 16

// consents finds the prompts that redirects belong to.
type consents struct {
	searching chan struct{} // a search at a time: the address is open to everybody
	waiting   chan struct{} // requests that search or wait for it

	mu         sync.Mutex
	workspaces []string // where NeMo's clients have been
}

func newConsents() *consents {
	return &consents{searching: make(chan struct{}, 1), waiting: make(chan struct{}, maxSearches), workspaces: []string{chat.DefaultWorkspace}}
}

// addWorkspace notes a workspace.
func (c *consents) addWorkspace(workspace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.workspaces, workspace) && len(c.workspaces) < 100 {
		c.workspaces = append(c.workspaces, workspace)
	}
}

// handleRedirect takes the answer of an authorization server.
func (d *Dialect) handleRedirect(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	state := q.Get("state")
	if state == "" || len(state) > 4096 || q.Get("code") == "" && q.Get("error") == "" {
		writePage(w, http.StatusBadRequest, "This sign-in cannot be finished", "The address lacks a state, or a code. Go back to the conversation and begin again.", false)
		return
	}
	// The agent needs what was said, and the state is of no use to it any more.
	said := url.Values{}
	for _, k := range []string{"code", "error", "error_description", "iss", "scope"} {
		if v := q.Get(k); v != "" {
			said.Set(k, cutBytes(v, 4096))
		}
	}
	c, err := d.opt.Caller(r)
	id, prompt, err := d.findConsent(r.Context(), state, c, err == nil)
	if err == nil && prompt == nil {
		writePage(w, http.StatusBadRequest, "This sign-in is not expected", "Nothing waits for it: it was finished before, took too long, or was begun elsewhere. Go back to the conversation and begin again.", false)
		return
	}
	if err == nil {
		_, err = d.opt.Sessions.Answer(r.Context(), chat.Trusted, id, prompt.RequestID, chat.Answer{Text: said.Encode()})
	}
	switch {
	case err != nil && chat.CodeOf(err) == chat.Internal:
		d.log.ErrorContext(r.Context(), "redirect failed", "err", err)
		writePage(w, http.StatusInternalServerError, "Something went wrong", "Go back to the conversation and begin again.", false)
	case chat.CodeOf(err) == chat.SlowDown:
		retryAfter(w, err)
		writePage(w, http.StatusTooManyRequests, "This sign-in cannot be finished yet", chat.Public(err).Msg, false)
	case err != nil:
		writePage(w, http.StatusBadRequest, "This sign-in cannot be finished", chat.Public(err).Msg, false)
	case q.Get("error") != "":
		writePage(w, http.StatusOK, "The sign-in was refused", "The agent has been told. You can close this window.", false)
	default:
		writePage(w, http.StatusOK, "Signed in", "You can close this window and go back to the conversation.", true)
	}
}

// findConsent finds the open prompt of a state: by the address that the agent gave,
// or, for a caller who may see it, by the prompt's own id, which /executions
// gives out where the address has no state.
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
	// A conversation in which something happens while the list is read moves to
	// its front, and may be passed over: the front is looked at again.
	var since chat.At
	for range 3 {
		begun := d.now()
		for _, workspace := range workspaces {
			id, p, err := d.search(ctx, workspace, state, since)
			if err != nil || p != nil {
				return id, p, err
			}
		}
		since = begun - 2e6 // clocks that differ a little do no harm
	}
	return "", nil, nil
}

// search looks through the conversations of a workspace that wait for somebody and
// in which something happened since then, the latest first.
func (d *Dialect) search(ctx context.Context, workspace, state string, since chat.At) (chat.SessionID, *chat.Prompt, error) {
	all := chat.Trusted
	all.Workspace = workspace
	filter := chat.Filter{Status: chat.Waiting, Limit: 100}
	for range maxWaiting / filter.Limit {
		list, err := d.opt.Sessions.List(ctx, all, filter)
		if err != nil {
			return "", nil, err
		}
		for _, sess := range list.Sessions {
			if sess.UpdatedAt < since {
				return "", nil, nil
			}
			p, err := d.consentPrompt(ctx, sess.ID, func(p *chat.Prompt) bool { return stateOf(p.Input) == state })
			if err != nil || p != nil {
				return sess.ID, p, err
			}
		}
		if filter.Cursor = list.Next; filter.Cursor == "" {
			break
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

// stateOf is the state in the address of a consent prompt, "" when it has none.
func stateOf(in *chat.AgentInputRequest) string {
	u, err := url.Parse(first(in.URL, in.Text))
	if err != nil {
		return ""
	}
	return u.Query().Get("state")
}

// closeScript tells the page that opened the window, and closes it.
const closeScript = `if(window.opener)window.opener.postMessage({type:"AUTH_SUCCESS"},"*");window.close();`

var closeScriptHash = func() string {
	sum := sha256.Sum256([]byte(closeScript))
	return base64.StdEncoding.EncodeToString(sum[:])
}()

// writePage is what a person sees in the window of the authorization server.
func writePage(w http.ResponseWriter, status int, title, text string, done bool) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'sha256-"+closeScriptHash+"'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer") // the address has a code in it
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	script := ""
	if done {
		script = "<script>" + closeScript + "</script>"
	}
	// The connection is the only thing that can fail here.
	_, _ = fmt.Fprintf(w, "<!doctype html><meta charset=utf-8><title>%[1]s</title><h1>%[1]s</h1><p>%[2]s</p>%[3]s\n",
		html.EscapeString(title), html.EscapeString(text), script)
}
