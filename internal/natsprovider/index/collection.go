package index

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/natsprovider"
	"github.com/parley-hq/parley/internal/record"
)

// Sessions is the part of the session rules that is used here.
type Sessions interface {
	record.Sessions
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
}

// maxName bounds the names of collections, and the ids in them.
const maxName = 256

// collections are the collections of one kind, each a log.
type collections[V record.Value] struct {
	logs     record.Logs[V]
	sessions Sessions
	kind     string
}

func newCollections[V record.Value](s Sessions, kind string, empty func() V) collections[V] {
	return collections[V]{logs: record.Logs[V]{Sessions: s, New: func(string) V { return empty() }}, sessions: s, kind: kind}
}

// view calls f with a collection; see [record.Logs.View].
func (cs *collections[V]) view(ctx context.Context, c natsprovider.Call, name string, f func(V) error) error {
	log, err := cs.logOf(ctx, c, name)
	if err != nil {
		return err
	}
	return cs.logs.View(ctx, log, f)
}

// change calls f with a collection that nobody else changes meanwhile; see [record.Logs.Change].
func (cs *collections[V]) change(ctx context.Context, c natsprovider.Call, name string, f func(*record.Tx[V]) error) error {
	log, err := cs.logOf(ctx, c, name)
	if err != nil {
		return err
	}
	return cs.logs.Change(ctx, log, f)
}

// logOf returns the log of the collection that a call names: a collection of the workspace of the call's session.
func (cs *collections[V]) logOf(ctx context.Context, c natsprovider.Call, name string) (record.Name, error) {
	if name == "" || len(name) > maxName {
		return record.Name{}, chat.Errorf(chat.Invalid, "a collection has a name of 1 to %d bytes", maxName)
	}
	workspace := chat.DefaultWorkspace
	if c.Session != "" {
		sess, err := cs.sessions.Get(ctx, chat.Trusted, c.Session)
		if err != nil {
			return record.Name{}, err
		}
		workspace = sess.Workspace
	}
	sum := sha256.Sum256([]byte(workspace + "\x00" + name))
	id := chat.SessionID("sys-" + cs.kind + "." + hex.EncodeToString(sum[:16]))
	return record.Name{ID: id, Workspace: workspace, Title: "Collection " + name}, nil
}

// contains reports whether an object has these values.
func contains(object, want map[string]json.RawMessage) bool {
	for k, v := range want {
		if object[k] == nil || canonical(object[k]) != canonical(v) {
			return false
		}
	}
	return true
}

// canonical writes a JSON value in one way, so that equal values are equal texts.
func canonical(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(b)
}
