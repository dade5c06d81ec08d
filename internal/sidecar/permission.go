package sidecar

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// permission adds missing scopes and a request id to a permission request. The event
// contains the tool and arguments, so that the decision is bound to that call.
func permission(payload json.RawMessage, key string) (done json.RawMessage, request string, err error) {
	fields := map[string]json.RawMessage{}
	var p struct {
		chat.AgentPermissionRequest
		GrantType string `json:"grant_type"`
	}
	if err := errors.Join(json.Unmarshal(payload, &fields), json.Unmarshal(payload, &p)); err != nil {
		return nil, "", chat.Errorf(chat.Invalid, "a permission request is an object {scopes, justification, requested_tool, requested_args}").Because(err)
	}
	if len(p.Scopes) == 0 {
		// Some of x1's agents send a grant_type instead.
		scope := p.GrantType
		if scope == "" {
			scope = p.Tool
		}
		if scope == "" {
			return nil, "", chat.Errorf(chat.Invalid, "a permission request needs scopes, grant_type or requested_tool")
		}
		setField(fields, "scopes", []string{scope})
	}
	if request = p.RequestID; request == "" {
		sum := sha256.Sum256([]byte(key))
		request = "perm-" + hex.EncodeToString(sum[:12])
		setField(fields, "request_id", request)
	}
	done, err = json.Marshal(fields)
	return done, request, err
}

// setField sets a field of an object. The values are texts, numbers and lists of texts.
func setField(fields map[string]json.RawMessage, name string, v any) {
	if b, err := json.Marshal(v); err == nil {
		fields[name] = b
	}
}
