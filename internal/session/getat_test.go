package session

import (
	"context"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// slowNode is a node whose copy may be behind. log and owner are whether those say that it has everything.
type slowNode struct {
	OtherNodes
	log, owner bool
}

func (slowNode) Owns(chat.SessionID) bool                        { return true }
func (n *slowNode) ReadLog(context.Context, chat.SessionID) bool { return n.log }
func (n *slowNode) CatchUp(context.Context, chat.Number) bool    { return n.owner }

// An event counts as one that does not exist only if the log and the owner of the session say so: the server that answers for the log may
// be a former leader that does not know of the next one.
func TestEventIsMissingOnlyWhenLogAndOwnerSayIt(t *testing.T) {
	for name, n := range map[string]*slowNode{
		"neither answers":      {},
		"only the log says it": {log: true},
		"only the owner does":  {owner: true},
		"both say it":          {log: true, owner: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestStore(t, Options{OtherNodes: n})
			id := w.begin("s", chat.NewSession{Agent: chat.NoAgent})
			w.say(id, "hello")
			sess, err := w.GetAt(ctx, ann, id, 1)
			if err != nil {
				t.Fatalf("an event that is there: %v", err)
			}
			_, err = w.GetAt(ctx, ann, id, sess.Last+1)
			if n.log && n.owner {
				if err != nil {
					t.Errorf("an event that does not exist: %v", err)
				}
				return
			}
			w.wantCode(err, chat.Unavailable)
		})
	}
}
