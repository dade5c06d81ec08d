package agui

import (
	"cmp"
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/aguiwire"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/text"
)

// threadInfo is what the metadata of a session has under "agui".
type threadInfo struct {
	Thread string `json:"thread,omitempty"` // the client's id of it, when that is not the session's
	Import bool   `json:"import,omitempty"` // the history is being stored; the session has no agent until that is done
}

func (i threadInfo) metadata() json.RawMessage {
	return pages.Marshal(map[string]threadInfo{via: i})
}

func infoOf(s *chat.Session) threadInfo { return aguiwire.Own[threadInfo](s.Metadata) }

// threadOf is the id by which the owner's clients know a session.
func threadOf(s *chat.Session) string { return cmp.Or(infoOf(s).Thread, string(s.ID)) }

// maxImported bounds the messages of a page's history that are stored in a new session.
const maxImported = 200

// create begins the session of a thread with what the page has of the conversation so far.
func (d *Dialect) create(ctx context.Context, c chat.Caller, agent string, in *input) (chat.Session, error) {
	info := threadInfo{Import: len(in.history()) > 0}
	if chat.SessionID(in.ThreadID).Validate() != nil {
		info.Thread = in.ThreadID
	}
	n := chat.NewSession{Agent: agent}
	if info != (threadInfo{}) {
		n.Metadata = info.metadata()
	}
	if info.Import {
		n.Agent = chat.NoAgent
	}
	sess, _, err := d.Sessions.Ensure(ctx, c, in.ThreadID, n)
	return sess, err
}

// importHistory stores what the page has of the conversation in a new session, and gives the session its agent. The author is the
// caller, also of what the agent is said to have written. Calls, results and approvals of the page are left out: it is not trusted
// about them.
func (d *Dialect) importHistory(ctx context.Context, c chat.Caller, agent string, sess *chat.Session, in *input) (chat.Session, error) {
	if history := in.history(); sess.Last <= 1 && len(history) > 0 { // else the server ended during the import
		writer := c
		writer.Scopes = append(slices.Clone(c.Scopes), chat.ScopeAgent)
		if _, err := d.Sessions.Append(ctx, writer, sess.ID, history); err != nil {
			return *sess, err
		}
	}
	info := infoOf(sess)
	info.Import = false
	return d.Sessions.Update(ctx, c, sess.ID, chat.SessionUpdated{Agent: &agent, Metadata: info.metadata()})
}

// history returns drafts of the texts before the newest user message.
func (in *input) history() (out []chat.Draft) {
	before := in.upToUser()
	for _, m := range slices.Backward(before[:max(0, len(before)-1)]) {
		said := aguiwire.Text(m.Content)
		var d chat.Draft
		switch m.Role {
		case "user":
			d = chat.NewDraft(chat.UserMessage{Text: said, Context: pages.Marshal(map[string]stored{via: {MessageID: text.Clip(m.ID, maxID), Imported: true}})})
		case "assistant":
			d = chat.NewDraft(chat.AgentText{Text: said})
		}
		d.Via = via
		if d.Body == nil || said == "" || edge.CheckSize(&d) != nil {
			continue
		}
		if out = append(out, d); len(out) == maxImported {
			break
		}
	}
	slices.Reverse(out)
	return out
}
