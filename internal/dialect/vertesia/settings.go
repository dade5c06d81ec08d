package vertesia

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/retry"
)

// approvals are the protocol's names of the approval settings.
var approvals = map[string]chat.Approvals{"ask": chat.ApproveAsk, "auto_review": chat.ApproveReview, "full_control": chat.ApproveAll}

// approvalMode is the protocol's name of an approval setting, "" for none.
func approvalMode(a chat.Approvals) string {
	for word, have := range approvals {
		if have == a {
			return word
		}
	}
	return ""
}

// modelConfig is the key config of a run.
type modelConfig struct {
	Model   string `json:"model"`
	Options struct {
		Effort string `json:"effort"`
	} `json:"model_options"`
}

// settingsOf are the settings of a session after keys of its meta have changed.
// Keys that are not named stay; null removes a setting.
func settingsOf(s chat.Settings, changed meta) (chat.Settings, error) {
	if v, ok := changed["tool_approval_mode"]; ok {
		mode := changed.text("tool_approval_mode")
		if s.Approvals = approvals[mode]; s.Approvals == "" && truthy(v) != nil {
			return s, chat.Errorf(chat.Invalid, "tool_approval_mode is ask, auto_review or full_control")
		}
	}
	if v, ok := changed["config"]; ok {
		var c modelConfig
		_ = json.Unmarshal(v, &c) // in another form it is only stored
		s.Model, s.Effort = c.Model, c.Options.Effort
	}
	if _, ok := changed["model"]; ok {
		s.Model = changed.text("model")
	}
	if _, ok := changed["effort"]; ok {
		s.Effort = changed.text("effort")
	}
	if _, ok := changed["disabled_mcp_collections"]; ok {
		s.Without = changed.texts("disabled_mcp_collections")
	}
	_, named := changed["tool_names"]
	if _, excluded := changed["excluded_tools"]; named || excluded {
		s.Tools = changed.texts("tool_names")
		for _, name := range changed.texts("excluded_tools") {
			s.Tools = append(s.Tools, "-"+name)
		}
	}
	return s, nil
}

func (m meta) texts(key string) (list []string) {
	_ = json.Unmarshal(m[key], &list) // absent or of another type: nil
	return list
}

// changeSettings takes a signal about settings.
func (d *Dialect) changeSettings(ctx context.Context, c chat.Caller, sess run, name string, payload json.RawMessage) (string, error) {
	var in struct {
		settingsBody
		SignalMode *string `json:"mode"`
	}
	if err := decodeSignal(name, payload, &in); err != nil {
		return "", err
	}
	reply := "The settings hold from the next turn on."
	if name == "ToolApprovalModeChanged" {
		if in.SignalMode == nil || approvals[*in.SignalMode] == "" {
			return "", chat.Errorf(chat.Invalid, "mode is ask, auto_review or full_control")
		}
		in.Mode, reply = in.SignalMode, "The mode holds from now on."
	}
	return reply, d.change(ctx, c, sess.ID, in.changes(), nil)
}

// settingsBody are the keys of a run's meta that clients change.
type settingsBody struct {
	Model    *string         `json:"model"`
	Effort   json.RawMessage `json:"effort"`
	Disabled *[]string       `json:"disabled_mcp_collections"`
	Mode     *string         `json:"tool_approval_mode"`
}

// changes are the keys that the body has.
func (b *settingsBody) changes() map[string]any {
	set := map[string]any{}
	if b.Model != nil {
		set["model"] = *b.Model
	}
	if b.Effort != nil {
		set["effort"] = b.Effort
	}
	if b.Disabled != nil {
		set["disabled_mcp_collections"] = *b.Disabled
	}
	if b.Mode != nil {
		set["tool_approval_mode"] = *b.Mode
	}
	return set
}

// change sets keys of a run's meta, and the settings of the session that follow
// from them.
func (d *Dialect) change(ctx context.Context, c chat.Caller, id chat.SessionID, set map[string]any, title *string) error {
	defer d.lock.Lock(string(id))()
	return retry.WhileChanged(ctx, func() error { return d.changeFrom(ctx, c, id, set, title) })
}

func (d *Dialect) changeFrom(ctx context.Context, c chat.Caller, id chat.SessionID, set map[string]any, title *string) error {
	sess, err := d.opt.Sessions.Get(ctx, c, id)
	if err != nil {
		return err
	}
	u := chat.SessionUpdated{Title: title}
	if len(set) > 0 {
		m := metaOf(&sess)
		if m == nil {
			m = meta{}
		}
		changed := meta{}
		for k, v := range set {
			changed.set(k, v)
			if m[k] = changed[k]; string(m[k]) == "null" {
				delete(m, k)
			}
		}
		if u.Metadata, err = m.into(sess.Metadata); err != nil {
			return err
		}
		settings, err := settingsOf(sess.Settings, changed)
		if err != nil {
			return err
		}
		if !settings.Same(&sess.Settings) {
			u.Settings = &settings
		}
	}
	if u.Title == nil && u.Metadata == nil {
		return nil
	}
	_, err = d.opt.Sessions.UpdateFrom(ctx, c, sess, u)
	return err
}

// meta is the part of a session's metadata that belongs to this dialect, by key.
type meta map[string]json.RawMessage

// metaOf reads it; it is nil for sessions of other dialects.
func metaOf(s *chat.Session) meta {
	var m struct {
		Vertesia meta `json:"vertesia"`
	}
	if len(s.Metadata) == 0 || json.Unmarshal(s.Metadata, &m) != nil {
		return nil
	}
	return m.Vertesia
}

// into adds it to the metadata of a session.
func (m meta) into(metadata json.RawMessage) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if len(metadata) > 0 {
		if err := json.Unmarshal(metadata, &all); err != nil || all == nil {
			all = map[string]json.RawMessage{}
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	all[via] = b
	return json.Marshal(all)
}

func (m meta) text(key string) (s string) {
	_ = json.Unmarshal(m[key], &s) // absent or of another type: ""
	return s
}

func (m meta) set(key string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		return
	}
	m[key] = b
}

// once reports whether the run is complete when its work is done.
func (m meta) once() bool { return string(m["interactive"]) == "false" }

// shrink drops the largest values until the rest can be stored.
func (m meta) shrink() {
	size := 0
	for k, v := range m {
		size += len(k) + len(v) + 8
	}
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(m[b]), len(m[a])), cmp.Compare(a, b))
	})
	for _, k := range keys {
		if size <= maxKept {
			return
		}
		if k != "interactive" && k != "interaction" {
			size -= len(k) + len(m[k]) + 8
			delete(m, k)
		}
	}
}
