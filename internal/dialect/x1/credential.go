package x1

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sealed"
	"github.com/parley-hq/parley/internal/text"
)

// Role is what a credential is for.
type Role string

// The roles.
const (
	Viewer      Role = "viewer"      // reads
	Participant Role = "participant" // reads, speaks and answers
	Sidecar     Role = "sidecar"     // reads input, publishes events
)

// Credential lets a client connect to NATS for one session, for a limited time.
type Credential struct {
	URL         string         `json:"url"`
	WebSocket   string         `json:"websocket_url,omitempty"`
	User        string         `json:"user"`
	Password    string         `json:"password"`
	InboxPrefix string         `json:"inbox_prefix"` // clients must use it for reply subjects
	Session     chat.SessionID `json:"session_id"`
	Role        Role           `json:"role"`
	ExpiresAt   time.Time      `json:"expires_at"`
	Publish     []string       `json:"publish"`
	Subscribe   []string       `json:"subscribe"`
}

// String leaves the password out.
func (c Credential) String() string { return fmt.Sprintf("credential of %s for %s", c.Role, c.Session) }

// Bounds of a credential's lifetime.
const (
	defaultLife = 15 * time.Minute
	maxLife     = 12 * time.Hour
)

// sidecarUser is the login name of x1's own sidecar: it serves any session and has no
// credential for one.
const sidecarUser = "sidecar"

// credentialPrefix marks user names of credentials.
const credentialPrefix = "x1c."

// claims are what a credential grants. The user name holds them, and the password is
// their signature.
type claims struct {
	Session   chat.SessionID `json:"s"`
	Role      Role           `json:"r"`
	Actor     chat.Actor     `json:"a"`
	Workspace string         `json:"w,omitempty"`
	Scopes    []chat.Scope   `json:"c,omitempty"`
	All       bool           `json:"g,omitempty"` // admin for all workspaces
	Agents    []string       `json:"n,omitempty"`
	Root      string         `json:"k,omitempty"` // the credential of the caller who asked for it
	SignIn    string         `json:"o,omitempty"` // of the browser whose cookie asked for it
	Until     int64          `json:"e"`           // seconds
	Inbox     string         `json:"i"`
}

func (h *claims) caller() chat.Caller {
	return chat.Caller{
		Actor: h.Actor, Workspace: h.Workspace, Scopes: h.Scopes, AllWorkspaces: h.All, Agents: h.Agents,
		Credential: h.Root, Expires: time.Unix(h.Until, 0), SignIn: h.SignIn,
	}
}

// keyring signs credentials with a stored key, so that they are valid after a restart.
type keyring struct {
	key []byte
	now func() time.Time
}

func openKeyring(dir string, key []byte, now func() time.Time, log *slog.Logger) (*keyring, error) {
	if key != nil {
		return &keyring{key: key, now: now}, nil
	}
	k := &keyring{key: make([]byte, 32), now: now}
	_, _ = rand.Read(k.key) // never fails
	if dir == "" {
		return k, nil
	}
	file := filepath.Join(dir, "x1-credentials.key")
	key, made, err := sealed.Key(file, len(k.key))
	if err != nil {
		return nil, err
	}
	if made && HasArchive(dir) { // else the folder is new, and no credential was issued
		log.Info("a new key for x1 credentials was created; credentials issued before are refused", "file", file)
	}
	k.key = key
	return k, nil
}

func (k *keyring) sign(name string) string {
	mac := hmac.New(sha256.New, k.key)
	mac.Write([]byte(name))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// issue returns the user name and password for claims.
func (k *keyring) issue(h claims) (user, password string, err error) {
	b, err := json.Marshal(h)
	if err != nil {
		return "", "", err
	}
	user = credentialPrefix + base64.RawURLEncoding.EncodeToString(b)
	return user, k.sign(user), nil
}

// check verifies a user name and password and returns the claims.
func (k *keyring) check(user, password string) (claims, error) {
	if !hmac.Equal([]byte(k.sign(user)), []byte(password)) {
		return claims{}, chat.Errorf(chat.Unauthenticated, "this server did not issue this credential")
	}
	h, err := k.claims(user)
	if err == nil && k.now().Unix() >= h.Until {
		err = chat.Errorf(chat.Unauthenticated, "this credential has expired; get a new one")
	}
	return h, err
}

// claims reads a user name that NATS has verified.
func (k *keyring) claims(user string) (h claims, err error) {
	encoded, ok := strings.CutPrefix(user, credentialPrefix)
	b, derr := base64.RawURLEncoding.DecodeString(encoded)
	if !ok || derr != nil || json.Unmarshal(b, &h) != nil || h.Session.Validate() != nil {
		return claims{}, chat.Errorf(chat.Unauthenticated, "%q is not a credential of this server", text.Clip(user, 64))
	}
	return h, nil
}

// issue returns a credential for a session. It allows no more than the caller may do.
func (d *Dialect) issue(ctx context.Context, c chat.Caller, id chat.SessionID, role Role, life time.Duration) (Credential, error) {
	sess, err := d.opt.Sessions.Get(ctx, c, id)
	if err != nil {
		return Credential{}, err
	}
	if role, err = credentialRole(c, &sess, role); err != nil {
		return Credential{}, err
	}
	if life == 0 {
		life = defaultLife
	}
	if life < time.Second || life > maxLife {
		return Credential{}, chat.Errorf(chat.Invalid, "ttl is 1 to %d seconds", int(maxLife/time.Second))
	}
	until := d.opt.Now().Add(life)
	if !c.Expires.IsZero() && c.Expires.Before(until) {
		until = c.Expires // not longer than the caller's own
	}
	until = until.Truncate(time.Second)
	h := claims{
		Session: sess.ID, Role: role, Actor: c.Actor, Workspace: c.Workspace, Scopes: c.Scopes, All: c.AllWorkspaces, Agents: c.Agents,
		Root: c.Credential, SignIn: c.SignIn, Until: until.Unix(), Inbox: "_INBOX_" + rand.Text(),
	}
	cred := Credential{Session: sess.ID, Role: role, InboxPrefix: h.Inbox, ExpiresAt: until}
	if cred.User, cred.Password, err = d.keys.issue(h); err != nil {
		return Credential{}, err
	}
	for _, k := range role.publishes() {
		cred.Publish = append(cred.Publish, Subject(sess.ID, k))
	}
	for _, k := range role.subscribes() {
		cred.Subscribe = append(cred.Subscribe, Subject(sess.ID, k))
	}
	if role == Sidecar {
		cred.Publish = append(cred.Publish, ProviderAll, OrchestrationAll)
	}
	d.mu.Lock()
	cred.URL, cred.WebSocket = d.urls[0], d.urls[1]
	d.mu.Unlock()
	if cred.URL == "" {
		return Credential{}, chat.Errorf(chat.Unavailable, "NATS is not ready yet, or is an external server with its own credentials")
	}
	d.opt.Issued(c, map[string]any{"session": string(sess.ID), "role": string(role), "expires_at": until})
	return cred, nil
}

// credentialRole returns the role of a credential that the caller asks for, "" for the highest one that needs no scope. It fails if the
// caller may not have it.
func credentialRole(c chat.Caller, sess *chat.Session, role Role) (Role, error) {
	have := c.RoleIn(sess)
	switch {
	case role == Viewer, role == "" && !have.Includes(chat.Answerer):
		return Viewer, nil
	case role != "" && role != Participant && role != Sidecar:
		return "", chat.Errorf(chat.Invalid, "role %q is not one of viewer, participant, sidecar", text.Clip(string(role), 64))
	case !have.Includes(chat.Answerer):
		return "", chat.Errorf(chat.Denied, "you are a %s of this session; a credential of role %s needs the role answerer", have, role)
	case role != Sidecar:
		return Participant, nil
	case !c.Has(chat.ScopeAgent):
		return "", chat.Errorf(chat.Denied, "a credential of role sidecar needs the scope agent")
	}
	return Sidecar, mayServe(c, sess)
}

// publishes lists the kinds that a role may publish.
func (r Role) publishes() []Kind {
	switch r {
	case Participant:
		return []Kind{Input, Presence, History}
	case Sidecar:
		return []Kind{Events, Archive, Delta, Traffic, Presence, History}
	}
	return []Kind{Presence, History}
}

// subscribes lists the kinds that a role may subscribe to.
func (r Role) subscribes() []Kind {
	if r == Sidecar {
		return []Kind{Input, Presence, Events, Archive, Delta}
	}
	return []Kind{Events, Archive, Delta, Presence}
}
