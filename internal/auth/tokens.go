package auth

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/parley-hq/parley/chat"
)

const hidden = "[hidden]"

// String hides the secret, so that printing options is safe.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return `auth.Secret("` + s.String() + `")` }

// LogValue hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the secret from JSON and the like.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue shows the caller of the token, not the token.
func (t Token) LogValue() slog.Value {
	return slog.GroupValue(slog.String("actor", t.Actor.Key()), slog.String("workspace", t.Workspace), slog.Any("scopes", t.Scopes))
}

// LogValue shows where keys come from, not the secret.
func (j JWT) LogValue() slog.Value {
	return slog.GroupValue(slog.Any("secret", j.Secret), slog.String("key_file", j.KeyFile), slog.String("jwks", j.JWKS),
		slog.String("issuer", j.Issuer), slog.String("audience", j.Audience))
}

// anyWorkspace instead of a workspace extends the scope admin to all workspaces.
const anyWorkspace = "*"

// ReadTokens reads a token file: one token per line,
//
//	TOKEN SCOPE[,SCOPE…] ACTOR [WORKSPACE] [agents=NAME[,NAME…]]
//
// with any spaces or tabs between. ACTOR is an id, with user: or agent: before
// it if it should be clear what it is; without, it is an agent when agent is the
// only scope and a user otherwise. The scope admin holds for WORKSPACE; a * there
// means the default workspace, with the scope admin for all workspaces. agents=
// names the agents that a worker with this token may serve, agents=* allows all;
// without it that is only ACTOR. Empty lines and lines that begin with # are
// skipped. All faults are reported, by line and without showing the token.
func ReadTokens(r io.Reader) ([]Token, error) {
	var all []Token
	var bad []string
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		f := strings.Fields(lines.Text())
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		t := Token{}
		if last := len(f) - 1; last > 0 {
			if names, ok := strings.CutPrefix(f[last], "agents="); ok {
				f, t.Agents = f[:last], strings.Split(names, ",")
			}
		}
		if len(f) < 3 || len(f) > 4 {
			bad = append(bad, fmt.Sprintf("line %d: want TOKEN SCOPE[,SCOPE] ACTOR [WORKSPACE] [agents=NAME[,NAME]]", n))
			continue
		}
		t.Token = Secret(f[0])
		for s := range strings.SplitSeq(f[1], ",") {
			t.Scopes = append(t.Scopes, chat.Scope(s))
		}
		t.Actor = actorOf(f[2], t.Scopes)
		if len(f) == 4 && f[3] == anyWorkspace {
			t.AllWorkspaces = true
		} else if len(f) == 4 {
			t.Workspace = f[3]
		}
		for _, p := range t.problems() {
			bad = append(bad, fmt.Sprintf("line %d: %s", n, p))
		}
		all = append(all, t)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the token file: %w", err)
	}
	if len(bad) > 0 {
		return nil, fmt.Errorf("token file: %s", strings.Join(bad, "; "))
	}
	return all, nil
}

// actorOf reads kind:id or an id whose kind follows from the scopes.
func actorOf(s string, scopes []chat.Scope) chat.Actor {
	if id, ok := strings.CutPrefix(s, "user:"); ok {
		return chat.Actor{Kind: chat.User, ID: id}
	}
	if id, ok := strings.CutPrefix(s, "agent:"); ok {
		return chat.Actor{Kind: chat.Agent, ID: id}
	}
	return chat.Actor{Kind: kindFor(scopes), ID: s}
}

func kindFor(scopes []chat.Scope) chat.ActorKind {
	if len(scopes) == 1 && scopes[0] == chat.ScopeAgent {
		return chat.Agent
	}
	return chat.User
}
