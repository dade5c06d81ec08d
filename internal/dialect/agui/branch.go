package agui

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// A message that is edited or answered again is the first one of a fork of the session. The fork takes the place of the session in
// the thread: an alias of the caller that is made from the thread's id refers to it.

// alias is the caller's name for a branch of a thread: for the current one, or for the one that a message begins.
func alias(thread, message string) string {
	sum := sha256.Sum256([]byte(thread + "\x00" + message))
	return "agui/" + hex.EncodeToString(sum[:])
}

// find returns the session of a thread.
func (d *Dialect) find(ctx context.Context, c chat.Caller, thread string) (chat.Session, error) {
	return d.Find(ctx, c, alias(thread, ""), thread)
}

// findBranch returns the session that a request is for. A page that keeps branches says with its history in which one it is.
func (d *Dialect) findBranch(ctx context.Context, c chat.Caller, in *input) (chat.Session, error) {
	if in.branches() {
		for _, id := range in.earlier() {
			sess, err := d.Sessions.AliasedHere(ctx, c, alias(in.ThreadID, id))
			if err == nil {
				err = d.Sessions.ReplaceAlias(ctx, c, alias(in.ThreadID, ""), sess.ID)
			}
			if chat.CodeOf(err) != chat.NotFound {
				return sess, err
			}
		}
	}
	return d.find(ctx, c, in.ThreadID)
}

// branches reports whether the page keeps branches: a message whose history is shorter than the thread replaces what follows.
// Without that, the page may only be behind another one.
func (in *input) branches() bool {
	var props struct {
		Own struct {
			Branch bool `json:"branch"`
		} `json:"parley"`
	}
	return in.Branch || json.Unmarshal(in.Props, &props) == nil && props.Own.Branch
}

// maxEarlier bounds the messages of a page's history that are looked up.
const maxEarlier = 100

// earlier returns the ids of the user messages before the newest one, the newest first.
func (in *input) earlier() (ids []string) {
	said := in.upToUser()
	for _, m := range slices.Backward(said[:max(0, len(said)-1)]) {
		if m.Role == "user" && len(ids) < maxEarlier {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// replaced returns the stored message that a request replaces, nil when it replaces none. e is the stored message with the
// id of the request's message, if there is one.
func (d *Dialect) replaced(ctx context.Context, t *target, st *chat.State, in *input, e *chat.Event, draft *chat.Draft) (*chat.Event, error) {
	if e != nil {
		edited := e.Actor.Same(t.caller.Actor) && !sameText(e, draft)
		if edited || sameText(e, draft) && in.asksAgain(t.variant, st, e) {
			return e, nil
		}
		return nil, nil
	}
	if !in.branches() {
		return nil, nil
	}
	r := chat.Range{Limit: 1, Workstream: &mainLine, Types: []string{chat.UserMessage{}.Type()}}
	for _, id := range in.earlier() {
		before, err := d.sent(ctx, t, id)
		if err != nil {
			return nil, err
		}
		if before != nil {
			r.After = before.Seq
			break
		}
	}
	for next, err := range d.Sessions.Events(ctx, t.caller, t.session, r) {
		return &next, err
	}
	return nil, nil
}

// asksAgain reports whether a request wants another answer to a message: its turn has ended, the page shows no answer, and the run
// is a new one. A plain client that lost its connection sends the same; it gets the stored answer unless it keeps branches.
func (in *input) asksAgain(f variant, st *chat.State, e *chat.Event) bool {
	own := storedOf(e)
	if own.Imported { // no turn has answered it here
		return true
	}
	turn := st.Line(mainLine).Turn
	running := turn != nil && e.Seq >= turn.Trigger
	return !running && in.RunID != "" && in.RunID != own.Run && (!f.plain || in.branches())
}

// fork continues the thread in a fork that ends before a message. id is the id of the message that begins the branch.
func (d *Dialect) fork(ctx context.Context, t *target, st *chat.State, replaced *chat.Event, id string) error {
	c, old := t.caller, t.session
	fork, err := d.Fork(ctx, c, &st.Session, replaced.Seq, threadInfo{Thread: t.thread}.metadata())
	if err != nil {
		return err
	}
	t.session = fork.ID
	err = d.Sessions.ReplaceAlias(ctx, c, alias(t.thread, messageID(replaced)), old)
	if chat.CodeOf(err) == chat.Denied { // another owner's session: this caller finds it by its id only
		err = nil
	}
	for _, name := range []string{id, ""} {
		if err == nil {
			err = d.Sessions.ReplaceAlias(ctx, c, alias(t.thread, name), fork.ID)
		}
	}
	return err
}
