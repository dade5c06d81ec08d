package chat

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/internal/json"
)

// ActorKind says what an actor is.
type ActorKind string

// The kinds of actor.
const (
	User   ActorKind = "user"
	Agent  ActorKind = "agent"
	Server ActorKind = "server" // Parley itself: turns, expiries
)

// Actor is a user, an agent or the server, as the author of events. The kind and id
// are the identity; the rest is for display.
type Actor struct {
	Kind  ActorKind `json:"kind"`
	ID    string    `json:"id"`
	Name  string    `json:"name,omitempty"`
	Email string    `json:"email,omitempty"`
	Info  Info      `json:"info,omitempty"`
}

// Info is what else an actor's client says about it, such as a team: a JSON object,
// kept as a text so that actors can be compared.
type Info string

// ReadInfo reads an object; one without members is no info.
func ReadInfo(b []byte) (Info, error) {
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil || out.Len() == 0 || out.Bytes()[0] != '{' {
		return "", Errorf(Invalid, "the info of an actor must be a JSON object").Because(err)
	}
	if out.Len() > MaxActorInfo {
		return "", Errorf(Invalid, "the info of an actor has at most %d bytes", MaxActorInfo)
	}
	if out.String() == "{}" {
		return "", nil
	}
	return Info(out.String()), nil
}

// MarshalJSON gives the object.
func (i Info) MarshalJSON() ([]byte, error) {
	if i == "" {
		return []byte("null"), nil
	}
	return []byte(i), nil
}

// UnmarshalJSON reads an object or null.
func (i *Info) UnmarshalJSON(b []byte) (err error) {
	if string(b) == "null" {
		return nil
	}
	*i, err = ReadInfo(b)
	return err
}

// System is the actor of what the server decides by itself.
var System = Actor{Kind: Server, ID: "parley"}

// Same reports whether a and b are one identity.
func (a Actor) Same(b Actor) bool { return a.Kind == b.Kind && a.ID == b.ID }

// Key is the identity as one string, for indexes.
func (a Actor) Key() string { return string(a.Kind) + ":" + a.ID }

// Scope is a right that a caller holds in its workspace.
type Scope string

// The scopes. Rights over one session come from being its owner or member.
const (
	ScopeUser  Scope = "user"  // create sessions, write messages, answer prompts, read one's own sessions
	ScopeAgent Scope = "agent" // append agent events and previews, claim turns
	ScopeAdmin Scope = "admin" // every session of the workspace; with AllWorkspaces all sessions, backup, verify, metrics
)

// Caller is an actor with the rights of one request. Package auth makes it from a
// credential; nothing that a client writes into a body or a record changes it.
type Caller struct {
	Actor     Actor
	Workspace string // "" means DefaultWorkspace
	Scopes    []Scope

	// AllWorkspaces extends the scope admin to every workspace. Without it an
	// administrator has the rights of one only in Workspace.
	AllWorkspaces bool

	// Agents are the names that a caller with the scope agent may serve as a
	// worker; AnyAgent means all. Empty means only the actor's own id.
	Agents []string

	// Credential identifies the token or key that the caller was made from,
	// without revealing it. Everything derived from one credential has the same
	// value, so that it can be revoked together. "" is a caller inside the process.
	Credential string
	Expires    time.Time // when the credential ends; zero means that it does not
	Issued     bool      // the credential is a short-lived token made from a key; it cannot be exchanged for another
	SignIn     string    // identifies the sign-in of a browser whose cookie made the request; "" without a cookie
}

// AnyAgent in [Caller.Agents] allows every agent name.
const AnyAgent = "*"

// Administers reports whether the caller has the scope admin for a workspace.
func (c Caller) Administers(workspace string) bool {
	return slices.Contains(c.Scopes, ScopeAdmin) && (c.AllWorkspaces || c.In() == workspace)
}

// AdministersAll reports whether the caller has the scope admin for every
// workspace, and so for the server itself.
func (c Caller) AdministersAll() bool {
	return c.AllWorkspaces && slices.Contains(c.Scopes, ScopeAdmin)
}

// MayServe reports whether the caller may take the turns of an agent.
func (c Caller) MayServe(agent string) bool {
	if !c.Has(ScopeAgent) || agent == "" || agent == NoAgent {
		return false
	}
	if len(c.Agents) == 0 {
		return c.Actor.ID == agent
	}
	return slices.Contains(c.Agents, agent) || slices.Contains(c.Agents, AnyAgent)
}

// Serves describes which agents the caller may serve, for errors.
func (c Caller) Serves() string {
	switch {
	case !c.Has(ScopeAgent):
		return "this token has no scope agent, so it serves no agent"
	case len(c.Agents) == 0:
		return "this token may serve only the agent " + strconv.Quote(c.Actor.ID)
	case slices.Contains(c.Agents, AnyAgent):
		return "this token may serve every agent"
	}
	return "this token may serve the agents " + strings.Join(c.Agents, ", ")
}

// Person reports whether the caller may consent to something: an actor of kind
// user with the scope user, or the server. Agents may not, whatever their scopes.
func (c Caller) Person() bool {
	return c.Actor.Kind == Server || c.Actor.Kind == User && c.Has(ScopeUser)
}

// DefaultWorkspace is the workspace of callers and sessions that name none.
const DefaultWorkspace = "default"

// Has reports whether the caller holds the scope; admin holds all.
func (c Caller) Has(s Scope) bool {
	return slices.Contains(c.Scopes, s) || slices.Contains(c.Scopes, ScopeAdmin)
}

// In returns the caller's workspace.
func (c Caller) In() string { return cmp.Or(c.Workspace, DefaultWorkspace) }

// Trusted is the caller the server itself uses for what it decides.
var Trusted = Caller{Actor: System, Scopes: []Scope{ScopeAdmin}, AllWorkspaces: true, Agents: []string{AnyAgent}}

// Role is what a member may do in one session.
type Role string

// The roles, each including those before it.
const (
	Viewer   Role = "viewer"
	Answerer Role = "answerer"
	Owner    Role = "owner"
)

var rank = map[Role]int{Viewer: 1, Answerer: 2, Owner: 3}

// Includes reports whether r allows what want allows.
func (r Role) Includes(want Role) bool { return rank[r] >= rank[want] && rank[r] > 0 }

// Member is an actor with a role in a session.
type Member struct {
	Actor Actor `json:"actor"`
	Role  Role  `json:"role"`
}

// MaxActorField bounds each text of an actor, MaxActorInfo what else is said about
// it.
const (
	MaxActorField = 256
	MaxActorInfo  = 4 << 10
)

func (a Actor) validate() error {
	for _, s := range []string{a.ID, a.Name, a.Email} {
		if len(s) > MaxActorField || strings.ContainsAny(s, "\x00") {
			return Errorf(Invalid, "an actor's id, name and email have at most %d bytes", MaxActorField)
		}
	}
	return nil
}
