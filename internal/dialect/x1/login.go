package x1

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/text"
)

// Login decides what a connection may do. A credential allows what its claims say, in
// the account of guests. An x1 sidecar may publish for every session. All others need the
// token of an administrator, if tokens are needed. A login waits until messages are received.
// Login accepts nobody after the server has stopped receiving, or while this node is behind: a
// client of a cluster then finds another node.
func (d *Dialect) Login(ctx context.Context, in bus.Login) bus.Grant {
	if d.opt.Behind() || !d.inbound.receives(ctx) {
		return bus.Grant{Later: true}
	}
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

// loginName is the name of a client that logged in with a token. It ends with the
// credential and the sign-in of the browser that the token was made for, if there is one,
// so that Revoked finds the client.
func loginName(name string, c chat.Caller) string {
	if c.Credential == "" {
		return name
	}
	return name + "#" + c.Credential + "#" + c.SignIn
}

func isSidecar(name string) bool {
	return name == sidecarUser || strings.HasPrefix(name, sidecarUser+"#")
}

// Revoked closes the connections whose credential was revoked, or whose browser was signed out.
func (d *Dialect) Revoked() {
	err := d.opt.Cut(func(user string) bool {
		var c chat.Caller
		if strings.HasPrefix(user, credentialPrefix) {
			h, err := d.keys.claims(user)
			if err != nil {
				return true
			}
			c = h.caller()
		} else if parts := strings.Split(user, "#"); len(parts) > 2 { // see loginName
			c.Credential, c.SignIn = parts[len(parts)-2], parts[len(parts)-1]
		}
		return d.opt.Check(c) != nil
	})
	if err != nil {
		d.log.Error("NATS clients whose tokens were revoked may still be connected", "err", err)
	}
}
