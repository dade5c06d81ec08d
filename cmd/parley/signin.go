package main

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/record"
	"github.com/parley-hq/parley/internal/session"
	"github.com/parley-hq/parley/internal/sleep"
)

// signInPrefix begins the ids of the system sessions of a cluster with the links that were used and the browsers that were signed
// out. There is one for each day on which links and cookies end, so that a day that is over can be erased.
const signInPrefix = "sys-sign-ins-"

const (
	day         = 24 * time.Hour
	signInAhead = 2   // days in which links and cookies of today can end; they are valid for 12 hours at most
	signInOld   = 365 // days back for which sessions are erased, if the server was not running when they ended
)

// signInLog returns the session for links and cookies that end at a time.
func signInLog(until time.Time) record.Name {
	return record.Name{ID: chat.SessionID(signInPrefix + until.UTC().Format("20060102")), Workspace: chat.DefaultWorkspace, Title: "Sign-ins"}
}

// Types of its events.
const (
	linkUsed  = "sign_in.link_used"
	signedOut = "sign_in.signed_out"
)

// signInEvent is the payload of its events.
type signInEvent struct {
	ID    string    `json:"id"`           // of the link or cookie
	Until time.Time `json:"until"`        // when that ends
	By    string    `json:"by,omitempty"` // of a link: a random text of the request that used it
}

// signIns stores sign-ins for all nodes; it implements auth.SignInLog.
type signIns struct{ logs *record.Logs[ignored] }

// ignored is the value of the log: [parley.shareSignIns] reads its events.
type ignored struct{}

func (ignored) Apply(*chat.Event) {}

// signInTime is the limit for storing a sign-in.
const signInTime = 10 * time.Second

// UseLink stores that a link was used. The id of the link is the key of the event, so a second event is refused.
func (s signIns) UseLink(ctx context.Context, id string, until time.Time) (used bool, err error) {
	err = s.store(ctx, linkUsed, signInEvent{ID: id, Until: until, By: rand.Text()})
	if chat.ReasonOf(err) == chat.ClientIDReused {
		return true, nil
	}
	return false, err
}

// SignOut stores that a browser was signed out.
func (s signIns) SignOut(ctx context.Context, id string, until time.Time) error {
	return s.store(ctx, signedOut, signInEvent{ID: id, Until: until})
}

func (s signIns) store(ctx context.Context, typ string, e signInEvent) error {
	// The request of a browser ends with its sign-in, but what it began is completed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), signInTime)
	defer cancel()
	return s.logs.Change(ctx, signInLog(e.Until), func(tx *record.Tx[ignored]) error {
		_, err := tx.Append(ctx, typ, e, typ+"/"+e.ID)
		return err
	})
}

// shareSignIns makes cookies and one-time links valid on all nodes of a cluster with a secret. Every node observes the log of
// sign-ins.
func (p *parley) shareSignIns() error {
	if p.node == nil || p.cfg.ClusterSecretFile == "" {
		return nil
	}
	p.auth.ShareSignIns(p.clusterSecret.Key("sign-in"), signIns{&record.Logs[ignored]{Sessions: p.sessions, New: func(string) ignored { return ignored{} }}})
	apply := func(e *chat.Event) {
		var s signInEvent
		if e.Type == signedOut && json.Unmarshal(e.Payload, &s) == nil {
			p.auth.SignedOut(s.ID, s.Until)
		}
	}
	p.sessions.Observe(session.Observer{Published: func(id chat.SessionID, entries []core.Entry) {
		if !strings.HasPrefix(string(id), signInPrefix) {
			return
		}
		for i := range entries {
			if e, err := entries[i].Fact.Event(); err == nil && entries[i].Piece == nil {
				apply(&e)
			}
		}
	}})
	for ahead := range signInAhead + 1 {
		log := signInLog(time.Now().Add(time.Duration(ahead) * day))
		read := func(r chat.Range) ([]chat.Fact, bool, error) {
			return p.journal.Read(context.Background(), log.ID, r) // the other nodes are not connected yet
		}
		for e, err := range chat.Events(chat.Facts(chat.Range{}, read)) {
			if chat.CodeOf(err) == chat.NotFound {
				break // nothing was written yet
			}
			if err != nil {
				return err
			}
			apply(&e)
		}
	}
	p.runs = append(p.runs, func(ctx context.Context) error {
		for sleep.For(ctx, time.Hour) == nil {
			eraseSignIns(ctx, p.sessions, p.node.Owns, time.Now(), p.log)
		}
		return nil
	})
	return nil
}

// eraseSignIns erases the sessions of days that are over on all nodes, whatever their clocks say, if this node owns them.
func eraseSignIns(ctx context.Context, sessions *session.Sessions, owns func(chat.SessionID) bool, now time.Time, log *slog.Logger) {
	for ago := 2; ago <= signInOld; ago++ {
		id := signInLog(now.Add(-time.Duration(ago) * day)).ID
		if !owns(id) {
			continue
		}
		if _, err := sessions.Get(ctx, chat.Trusted, id); err != nil {
			continue // there is none, or it is erased
		}
		if _, err := sessions.Erase(ctx, chat.Trusted, id); err != nil {
			log.Warn("sign-ins that have ended could not be erased; trying again in an hour", "session", id, "err", err)
		}
	}
}
