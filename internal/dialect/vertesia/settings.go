package vertesia

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// approvals are the protocol's words for who decides about tools.
var approvals = map[string]chat.Approvals{"ask": chat.ApproveAsk, "auto_review": chat.ApproveReview, "full_control": chat.ApproveAll}

// approvalMode is the protocol's word for a session's approvals, "" for none.
func approvalMode(a chat.Approvals) string {
	for word, have := range approvals {
		if have == a {
			return word
		}
	}
	return ""
}

// modelConfig is how a run is to be executed.
type modelConfig struct {
	Model   string `json:"model"`
	Options struct {
		Effort string `json:"effort"`
	} `json:"model_options"`
}

// chosen are the settings of a session after a run's keys have changed. What is
// not named stays; what is null is none.
func chosen(s chat.Settings, changed meta) (chat.Settings, error) {
	if v, ok := changed["tool_approval_mode"]; ok {
		mode := changed.text("tool_approval_mode")
		if s.Approvals = approvals[mode]; s.Approvals == "" && truthy(v) != nil {
			return s, chat.Errorf(chat.Invalid, "tool_approval_mode is ask, auto_review or full_control")
		}
	}
	if v, ok := changed["config"]; ok {
		var c modelConfig
		_ = json.Unmarshal(v, &c) // of another form it is only kept
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
	_ = json.Unmarshal(m[key], &list) // absent or of another kind: none
	return list
}

// configure changes settings of a run.
func (d *Dialect) configure(ctx context.Context, c chat.Caller, sess run, name string, payload json.RawMessage) (string, error) {
	var in struct {
		Model    *string         `json:"model"`
		Effort   json.RawMessage `json:"effort"`
		Disabled *[]string       `json:"disabled_mcp_collections"`
		Mode     *string         `json:"mode"`
	}
	if err := decodeSignal(name, payload, &in); err != nil {
		return "", err
	}
	change := map[string]any{}
	said := "The settings hold from the next turn on."
	switch name {
	case "ModelConfigChanged":
		if in.Model != nil {
			change["model"] = *in.Model
		}
		if in.Effort != nil {
			change["effort"] = in.Effort
		}
	case "McpConfigChanged":
		if in.Disabled != nil {
			change["disabled_mcp_collections"] = *in.Disabled
		}
	default:
		if in.Mode == nil || approvals[*in.Mode] == "" {
			return "", chat.Errorf(chat.Invalid, "mode is ask, auto_review or full_control")
		}
		change["tool_approval_mode"] = *in.Mode
		said = "The mode holds from now on."
	}
	if err := d.change(ctx, c, sess.ID, change, nil); err != nil {
		return "", err
	}
	return said, nil
}

// checkpoint has the past of a run summarised before its agent goes on.
func (d *Dialect) checkpoint(ctx context.Context, c chat.Caller, sess run) (string, error) {
	if _, err := d.opt.Sessions.Update(ctx, c, sess.ID, chat.SessionUpdated{Compact: true}); err != nil {
		return "", err
	}
	return "The conversation is summarised before the next answer.", nil
}

// change sets keys of what is kept with a run, and the settings of its session
// that follow from them.
func (d *Dialect) change(ctx context.Context, c chat.Caller, id chat.SessionID, set map[string]any, title *string) error {
	release := d.lock.hold(id)
	defer release()
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
		settings, err := chosen(sess.Settings, changed)
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
	_, err = d.opt.Sessions.Update(ctx, c, id, u)
	return err
}
