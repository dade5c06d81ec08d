package sidecar

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// permission adds missing scopes and a request id to a permission request. The event
// contains the tool and arguments, so that the decision is bound to that call.
func permission(payload json.RawMessage, key string) (done json.RawMessage, request string, err error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(payload, &fields); err != nil {
		return nil, "", chat.Errorf(chat.Invalid, "a permission request is an object {scopes, justification, requested_tool, requested_args}").Because(err)
	}
	var p struct {
		chat.AgentPermissionRequest
		GrantType string          `json:"grant_type"`
		Details   json.RawMessage `json:"details"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, "", chat.Errorf(chat.Invalid, "a permission request is an object {scopes, justification, requested_tool, requested_args}").Because(err)
	}
	set := func(name string, v any) {
		if b, merr := json.Marshal(v); merr == nil {
			fields[name] = b
		}
	}
	if len(p.Scopes) == 0 {
		// x1's other spelling names a kind of grant instead.
		scope := p.GrantType
		if scope == "" {
			scope = p.Tool
		}
		if scope == "" {
			return nil, "", chat.Errorf(chat.Invalid, "a permission request needs scopes, grant_type or requested_tool")
		}
		set("scopes", []string{scope})
	}
	if request = p.RequestID; request == "" {
		sum := sha256.Sum256([]byte(key))
		request = "perm-" + hex.EncodeToString(sum[:12])
		set("request_id", request)
	}
	done, err = json.Marshal(fields)
	return done, request, err
}
