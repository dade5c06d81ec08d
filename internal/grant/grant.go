package grant

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// Scope says how long a grant holds.
type Scope string

// The scopes.
const (
	Once       Scope = "once"       // for one call
	Session    Scope = "session"    // in one session
	Persistent Scope = "persistent" // until it is revoked
)

// Types of grants that x1 defines. Others are stored, too.
const (
	Spawn     = "spawn"      // details: {agent}: which agent may be started; "*" is any
	ToolScope = "tool_scope" // details: {scopes}: what may be done
)

// Grant is what a person allows an agent, or the agents of a person.
type Grant struct {
	ID        string          `json:"id"`
	Workspace string          `json:"workspace"`
	User      string          `json:"user_id,omitempty"`  // whose agents it is for; exactly one of user and agent is set
	Agent     string          `json:"agent_id,omitempty"` // which agent it is for
	Type      string          `json:"grant_type"`
	Details   json.RawMessage `json:"details,omitempty"`
	Scope     Scope           `json:"scope"`
	Session   chat.SessionID  `json:"session_id,omitempty"` // where it holds, for scope session; else where it was asked for
	Reason    string          `json:"reason,omitempty"`
	Request   string          `json:"request_id,omitempty"` // the permission request that it answers
	Call      string          `json:"call_hash,omitempty"`  // the exact call, for scope once
	By        chat.Actor      `json:"created_by"`
	Wide      bool            `json:"workspace_wide,omitempty"` // an administrator gave it: it holds in all sessions
	CreatedAt chat.At         `json:"created_at,omitzero"`

	Used      *Use        `json:"used,omitempty"` // of scope once: what it was used for
	RevokedBy *chat.Actor `json:"revoked_by,omitempty"`
	RevokedAt chat.At     `json:"revoked_at,omitzero"`
}

// Use is one use of a grant.
type Use struct {
	Grant   string         `json:"grant_id"`
	Session chat.SessionID `json:"session_id,omitempty"`
	Call    string         `json:"call_id,omitempty"` // the caller's id of the call: the same id again is no second use
	By      chat.Actor     `json:"by"`
	At      chat.At        `json:"used_at,omitzero"`
}

// Ask is a question: is this call granted?
type Ask struct {
	User    string          `json:"user_id,omitempty"`
	Agent   string          `json:"agent_id,omitempty"`
	Type    string          `json:"grant_type"`
	Details json.RawMessage `json:"details,omitempty"`
	Session chat.SessionID  `json:"session_id,omitempty"`
	Call    string          `json:"call_id,omitempty"`
	Tool    string          `json:"tool,omitempty"` // with Args: the exact call
	Args    json.RawMessage `json:"args,omitempty"`
}

// active reports whether a grant can still be used.
func (g *Grant) active() bool { return g.RevokedBy == nil && (g.Scope != Once || g.Used == nil) }

// covers reports whether the grant allows what is asked for.
func (g *Grant) covers(a *Ask) bool {
	if g.Type != a.Type {
		return false
	}
	if g.Agent != "" && g.Agent != a.Agent || g.User != "" && g.User != a.User {
		return false
	}
	if g.Scope == Session && g.Session != a.Session {
		return false
	}
	if g.Scope == Once && g.Session != "" && g.Session != a.Session {
		return false
	}
	if g.Call != "" && g.Call != callHash(a.Tool, a.Args) {
		return false
	}
	return within(g.Details, a.Details)
}

// find returns the grant for a question, and whether it was used for the same call before. A grant that lasts comes
// before one that is used up.
func find(list []*Grant, a *Ask, holds func(*Grant) bool) (best *Grant, again bool) {
	for _, g := range list {
		if g.Used != nil && g.RevokedBy == nil && a.Call != "" && g.Used.Call == a.Call && g.Used.Session == a.Session && g.covers(a) {
			return g, true
		}
		if g.active() && g.covers(a) && holds(g) && (best == nil || best.Scope == Once && g.Scope != Once) {
			best = g
		}
	}
	return best, false
}

// fillIn sets the agent and user of a question in a session. A grant is for an agent of the session or for its owner, so
// a question with another name is refused.
func (a *Ask) fillIn(s *chat.Session) error {
	agent := agentOf(s)
	switch {
	case a.Agent == "":
		a.Agent = agent
	case a.Agent != agent && !slices.Contains(s.Agents, a.Agent):
		return chat.Errorf(chat.Denied, "agent_id %q is not an agent of this session; leave it out", text.Clip(a.Agent, 80))
	}
	switch {
	case a.User == "":
		a.User = s.Owner.ID
	case a.User != s.Owner.ID:
		return chat.Errorf(chat.Denied, "user_id %q is not the owner of this session; leave it out", text.Clip(a.User, 80))
	}
	return nil
}

// within reports whether the details of a question are allowed: it must have each field that the grant has, with one of
// the grant's values. "*" allows any value.
func within(allowed, wanted json.RawMessage) bool {
	var have, want map[string]any
	if len(allowed) == 0 || string(allowed) == "null" || string(allowed) == "{}" {
		return true
	}
	if json.Unmarshal(allowed, &have) != nil {
		return false
	}
	if len(wanted) > 0 && json.Unmarshal(wanted, &want) != nil {
		return false
	}
	for name, a := range have {
		w, ok := want[name]
		if !ok {
			return false
		}
		for _, one := range list(w) {
			found := false
			for _, may := range list(a) {
				found = found || may == "*" || same(may, one)
			}
			if !found {
				return false
			}
		}
	}
	return true
}

func list(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	return []any{v}
}

func same(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

// callHash identifies a call: the same tool with the same arguments has the same hash, however the arguments are
// written. Without a tool it is "".
func callHash(tool string, args json.RawMessage) string {
	if tool == "" {
		return ""
	}
	canonical := []byte(args)
	var v any
	if json.Unmarshal(args, &v) == nil {
		if b, err := json.Marshal(v); err == nil {
			canonical = b
		}
	}
	sum := sha256.Sum256(append([]byte(tool+"\x00"), canonical...))
	return hex.EncodeToString(sum[:])
}

// check returns an error with all that is wrong with a new grant.
func (g *Grant) check() error {
	var wrong []string
	if g.User == "" == (g.Agent == "") {
		wrong = append(wrong, "exactly one of user_id and agent_id says whom it is for")
	}
	if g.Type == "" || len(g.Type) > 64 {
		wrong = append(wrong, "grant_type is spawn, tool_scope or another word of at most 64 bytes")
	}
	switch g.Scope {
	case Once, Persistent:
	case Session:
		if g.Session == "" {
			wrong = append(wrong, "a grant of scope session needs a session_id")
		}
	default:
		wrong = append(wrong, "scope is once, session or persistent")
	}
	for name, s := range map[string]string{"user_id": g.User, "agent_id": g.Agent, "reason": g.Reason} {
		if len(s) > 4096 {
			wrong = append(wrong, name+" is too long")
		}
	}
	if len(g.Details) > 0 && string(g.Details) != "null" {
		var v map[string]any
		if json.Unmarshal(g.Details, &v) != nil || len(g.Details) > 64<<10 {
			wrong = append(wrong, "details is a JSON object of at most 64 KiB")
		}
	}
	if len(wrong) > 0 {
		return chat.Errorf(chat.Invalid, "this cannot be granted: %s", strings.Join(wrong, "; "))
	}
	return nil
}
