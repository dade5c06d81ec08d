package nemo

import (
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// userInfo is who the client says is speaking. It is for display: who somebody is
// is decided by tokens alone.
type userInfo struct {
	name, email string
	info        chat.Info
}

// apply is the caller under the person's name.
func (p userInfo) apply(c chat.Caller) chat.Caller {
	c.Actor.Name, c.Actor.Email = first(p.name, c.Actor.Name), first(p.email, c.Actor.Email)
	if p.info != "" {
		c.Actor.Info = p.info
	}
	return c
}

// decodeUserInfo reads the user of a frame. The protocol's placeholders are nobody,
// and so is what is no object.
func decodeUserInfo(raw json.RawMessage) (p userInfo, err error) {
	var all map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &all) != nil {
		return p, nil
	}
	p.name, p.email = userField(all["name"]), userField(all["email"])
	delete(all, "name")
	delete(all, "email")
	if p.info, err = chat.ReadInfo(appendJSON(nil, all)); err != nil {
		return p, refuse(codeMessage, "the user is described by too much: beside name and email there is room for %d bytes", chat.MaxActorInfo)
	}
	return p, nil
}

// userField is a name or an address, as far as it says something.
func userField(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil || s == placeholder || s == "string" {
		return ""
	}
	return cutBytes(strings.ReplaceAll(s, "\x00", ""), chat.MaxActorField)
}
