package x1

import (
	"cmp"
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
	"github.com/parley-hq/parley/internal/bus"
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
	Until     int64          `json:"e"`           // seconds
	Inbox     string         `json:"i"`
}

func (h *claims) caller() chat.Caller {
	return chat.Caller{
		Actor: h.Actor, Workspace: h.Workspace, Scopes: h.Scopes, AllWorkspaces: h.All, Agents: h.Agents,
		Credential: h.Root, Expires: time.Unix(h.Until, 0),
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
	have := c.RoleIn(&sess)
	if role == "" {
		role = Viewer
		if have.Includes(chat.Answerer) {
			role = Participant
		}
	}
	switch role {
	case Viewer:
	case Participant, Sidecar:
		if !have.Includes(chat.Answerer) {
			return Credential{}, chat.Errorf(chat.Denied, "you are a %s of this session; a credential of role %s needs the role answerer", have, role)
		}
		if role == Sidecar {
			if !c.Has(chat.ScopeAgent) {
				return Credential{}, chat.Errorf(chat.Denied, "a credential of role sidecar needs the scope agent")
			}
			if err := mayServe(c, &sess); err != nil {
				return Credential{}, err
			}
		}
	default:
		return Credential{}, chat.Errorf(chat.Invalid, "role %q is not one of viewer, participant, sidecar", text.Clip(string(role), 64))
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
		Root: c.Credential, Until: until.Unix(), Inbox: "_INBOX_" + rand.Text(),
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

// Login decides what a connection may do. A credential allows what its claims say, in
// the account of guests. An x1 sidecar may publish for every session. All others need the
// token of an administrator, if tokens are needed.
func (d *Dialect) Login(ctx context.Context, in bus.Login) bus.Grant {
	user := in.User
	if strings.HasPrefix(user, credentialPrefix) {
		return d.loginWithCredential(ctx, user, in.Password)
	}
	var c chat.Caller
	if d.opt.Token != nil {
		var err error
		secret := cmp.Or(in.Token, in.Password)
		if secret != "" {
			c, err = d.opt.Token(ctx, secret)
		}
		if secret == "" || err != nil || !c.AdministersAll() {
			d.log.InfoContext(ctx, "NATS client refused: it needs a credential for a session, or the token of an administrator of all workspaces", "user", text.Clip(user, 64))
			return bus.Grant{}
		}
	}
	if user == sidecarUser {
		a := bus.Grant{OK: true, Account: guestAccount, Name: loginName(sidecarUser, c), Until: c.Expires, Publish: []string{ProviderAll, TrafficAll, OrchestrationAll, "_INBOX.>"}, Subscribe: []string{"_INBOX.>"}}
		for _, k := range append(Sidecar.publishes(), Input) { // also into the sessions of children
			a.Publish = append(a.Publish, upPrefix+"*."+string(k))
		}
		for _, k := range []Kind{Input, Presence} {
			a.Subscribe = append(a.Subscribe, "x1.session.*."+string(k))
		}
		return a
	}
	a := bus.Grant{OK: true, Name: loginName(cmp.Or(user, "anonymous"), c), Until: c.Expires, NoPublish: []string{guestPrefix + ">"}}
	for _, k := range []Kind{Events, Archive, Input, Delta} {
		a.NoPublish = append(a.NoPublish, "x1.session.*."+string(k))
	}
	for _, op := range []string{"CREATE", "UPDATE", "DELETE", "PURGE", "RESTORE", "MSG.DELETE"} {
		a.NoPublish = append(a.NoPublish, "$JS.API.STREAM."+op+"."+ArchiveStream)
	}
	return a
}

// loginWithCredential decides what a connection with a credential may do.
func (d *Dialect) loginWithCredential(ctx context.Context, user, password string) bus.Grant {
	h, err := d.keys.check(user, password)
	if err == nil {
		err = d.opt.Check(h.caller())
	}
	if err != nil {
		d.opt.Refused(ctx, err)
	} else {
		// The caller may have lost access to the session.
		_, err = d.opt.Sessions.Get(ctx, h.caller(), h.Session)
	}
	if err != nil {
		d.log.InfoContext(ctx, "NATS client refused", "session", h.Session, "err", err)
		return bus.Grant{}
	}
	a := bus.Grant{OK: true, Account: guestAccount, Name: user, Until: time.Unix(h.Until, 0), Subscribe: []string{h.Inbox + ".>"}}
	for _, k := range h.Role.publishes() {
		a.Publish = append(a.Publish, upPrefix+subjectToken(h.Session)+"."+string(k))
	}
	for _, k := range h.Role.subscribes() {
		a.Subscribe = append(a.Subscribe, Subject(h.Session, k))
	}
	if h.Role == Sidecar {
		a.Publish = append(a.Publish, ProviderAll, OrchestrationAll)
	}
	return a
}

// disconnectFormerMembers closes the connections of clients that may no longer see the
// session, before its next event is published.
func (d *Dialect) disconnectFormerMembers(ctx context.Context, e *chat.Event) {
	b, ok := e.Body.(chat.SessionUpdated)
	if !ok || b.Members == nil && b.Agent == nil {
		return
	}
	err := d.opt.Cut(func(user string) bool {
		h, err := d.keys.claims(user)
		if err != nil || h.Session != e.Session {
			return false
		}
		_, err = d.opt.Sessions.Get(ctx, h.caller(), h.Session)
		return chat.CodeOf(err) == chat.NotFound || chat.CodeOf(err) == chat.Gone
	})
	if err != nil {
		d.log.ErrorContext(ctx, "clients that lost access to a session may still be connected", "session", e.Session, "err", err)
	}
}

// loginName is the name of a client that logged in with a token. It contains the
// credential, so that Revoked finds the client.
func loginName(name string, c chat.Caller) string {
	if c.Credential == "" {
		return name
	}
	return name + "#" + c.Credential
}

func isSidecar(name string) bool {
	return name == sidecarUser || strings.HasPrefix(name, sidecarUser+"#")
}

// Revoked closes the connections whose credential was revoked.
func (d *Dialect) Revoked() {
	err := d.opt.Cut(func(user string) bool {
		var c chat.Caller
		if strings.HasPrefix(user, credentialPrefix) {
			h, err := d.keys.claims(user)
			if err != nil {
				return true
			}
			c = h.caller()
		} else if at := strings.LastIndexByte(user, '#'); at >= 0 {
			c.Credential = user[at+1:]
		}
		return d.opt.Check(c) != nil
	})
	if err != nil {
		d.log.Error("NATS clients whose tokens were revoked may still be connected", "err", err)
	}
}
