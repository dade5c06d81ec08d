package tool

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Builtin returns the built-in tools with these names; "workstreams" stands for
// all tools for workstreams. Without names it returns the default tools.
func Builtin(names ...string) ([]Tool, error) {
	if len(names) == 0 {
		names = defaults
	}
	all := slices.Concat(builtins, workstreams)
	var out []Tool
	for _, name := range names {
		if name == "workstreams" {
			out = append(out, workstreams...)
			continue
		}
		i := slices.IndexFunc(all, func(t Tool) bool { return t.Name == name })
		if i < 0 {
			return nil, chat.Errorf(chat.Invalid, "%q is no built-in tool; there are %s", name, strings.Join(builtinNames(), ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

// builtinNames lists the built-in tools.
func builtinNames() []string {
	var out []string
	for _, t := range slices.Concat(builtins, workstreams) {
		out = append(out, t.Name)
	}
	return out
}

var defaults = []string{"ask_user", "update_plan", "publish_artifact", "request_permission"}

var builtins = []Tool{
	{
		Name:        "ask_user",
		Description: "Ask the person in the conversation something and wait for the answer. Use it when you cannot go on without knowing. Give options wherever the answer is one of a few.",
		Parameters: json.RawMessage(`{"type":"object","properties":{
			"question":{"type":"string","description":"What to ask, in the person's language."},
			"input_type":{"type":"string","enum":["text","binary_choice","radio","checkbox","dropdown","notification","oauth_consent"],"description":"text: free text. binary_choice: exactly two options. radio, dropdown: one of the options. checkbox: several of them. notification: only shown, nobody answers. oauth_consent: the person opens url and confirms."},
			"options":{"type":"array","items":{"type":"object","properties":{"value":{"type":"string"},"label":{"type":"string"},"description":{"type":"string"}},"required":["value"]}},
			"min":{"type":"integer","description":"Fewest choices of a checkbox."},"max":{"type":"integer","description":"Most choices of a checkbox."},
			"placeholder":{"type":"string"},"required":{"type":"boolean"},"url":{"type":"string","description":"For oauth_consent."},
			"timeout":{"type":"number","description":"Seconds after which nobody is waited for any more; absent means no limit."}},
			"required":["question"]}`),
		Repeatable: true, Untimed: true, Run: askUser,
	},
	{
		Name:        "update_plan",
		Description: "Show the person your plan as a list of tasks, and keep it up to date while you work. Give the whole plan each time.",
		Parameters: json.RawMessage(`{"type":"object","properties":{
			"tasks":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"title":{"type":"string"},"status":{"type":"string","enum":["pending","in_progress","done","skipped","failed"]},"detail":{"type":"string"}},"required":["title","status"]}},
			"comment":{"type":"string"}},"required":["tasks"]}`),
		Repeatable: true, Run: updatePlan,
	},
	{
		Name:        "publish_artifact",
		Description: "Give the person something you made: a document, a table, a chart, a page or code. It is shown beside the conversation and can be downloaded.",
		Parameters: json.RawMessage(`{"type":"object","properties":{
			"title":{"type":"string"},
			"type":{"type":"string","enum":["file","html","code","table","chart","image"],"description":"table: content is JSON {columns, rows}. chart: content is JSON of the chart. image: content is SVG text."},
			"path":{"type":"string","description":"File name, such as report.md."},
			"content":{"type":"string","description":"The whole text."},
			"language":{"type":"string","description":"Of code."},"media_type":{"type":"string"}},
			"required":["title","content"]}`),
		Repeatable: true, Run: publishArtifact,
	},
	{
		Name:        "request_permission",
		Description: "Ask the person to let you do something that needs their permission, before you do it.",
		Parameters: json.RawMessage(`{"type":"object","properties":{
			"scopes":{"type":"array","items":{"type":"string"},"description":"What you want to be allowed, such as calendar.write."},
			"justification":{"type":"string","description":"Why, in one sentence."},
			"timeout":{"type":"number"}},"required":["scopes","justification"]}`),
		Repeatable: true, Untimed: true, Run: requestPermission,
	},
}

func askUser(ctx context.Context, c Call) (json.RawMessage, error) {
	var in struct {
		Question    string         `json:"question"`
		InputType   chat.InputType `json:"input_type"`
		Options     []optionArg    `json:"options"`
		Min         int            `json:"min"`
		Max         int            `json:"max"`
		Placeholder string         `json:"placeholder"`
		Required    *bool          `json:"required"`
		URL         string         `json:"url"`
		Timeout     float64        `json:"timeout"`
	}
	if err := c.Read(&in); err != nil {
		return nil, err
	}
	if strings.TrimSpace(in.Question) == "" {
		return nil, &Error{Code: Invalid, Msg: "question is missing: say what you want to know"}
	}
	q := chat.AgentInputRequest{
		InputType: in.InputType, Text: in.Question, Min: in.Min, Max: in.Max, Placeholder: in.Placeholder,
		Required: in.Required, Timeout: in.Timeout, URL: in.URL,
	}
	for _, o := range in.Options {
		q.Options = append(q.Options, chat.Option{ID: o.Value, Label: cmp.Or(o.Label, o.Value), Value: o.Value, Description: o.Description})
	}
	if q.InputType == "" {
		if q.InputType = chat.InputText; len(q.Options) > 0 {
			q.InputType = chat.InputRadio
		}
	}
	answer, err := c.Turn.Ask(ctx, q)
	switch {
	case errors.Is(err, agent.ErrExpired):
		return json.RawMessage(`{"answered":false,"reason":"nobody answered in time"}`), nil
	case errors.Is(err, agent.ErrWithdrawn):
		return json.RawMessage(`{"answered":false,"reason":"the question was withdrawn"}`), nil
	case err != nil:
		return nil, asToolError(err)
	case q.InputType == chat.InputNotification:
		return json.RawMessage(`{"shown":true}`), nil
	}
	out := map[string]any{"answered": true}
	if len(answer.Values) > 0 {
		out["values"] = answer.Values
	}
	if answer.Text != "" || len(answer.Values) == 0 {
		out["text"] = answer.Text
	}
	return json.Marshal(out)
}

// optionArg is an option as models write it: an object, or a string.
type optionArg struct {
	Value, Label, Description string
}

// UnmarshalJSON reads both forms.
func (o *optionArg) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &o.Value) == nil {
		return nil
	}
	var in struct {
		Value       json.RawMessage `json:"value"`
		ID          string          `json:"id"`
		Label       string          `json:"label"`
		Description string          `json:"description"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	if json.Unmarshal(in.Value, &o.Value) != nil {
		o.Value = string(in.Value)
	}
	o.Label, o.Description = in.Label, in.Description
	o.Value = cmp.Or(o.Value, in.ID, in.Label)
	return nil
}

func updatePlan(ctx context.Context, c Call) (json.RawMessage, error) {
	var plan chat.AgentPlan
	if err := c.Read(&plan); err != nil {
		return nil, err
	}
	for i := range plan.Tasks {
		t := &plan.Tasks[i]
		if strings.TrimSpace(t.Title) == "" {
			return nil, &Error{Code: Invalid, Msg: fmt.Sprintf("tasks[%d] has no title", i)}
		}
		if t.ID == "" {
			t.ID = "t" + strconv.Itoa(i+1)
		}
		switch t.Status {
		case "pending", "in_progress", "done", "skipped", "failed":
		case "completed":
			t.Status = "done"
		default:
			t.Status = "pending"
		}
	}
	if err := c.Turn.Plan(ctx, plan); err != nil {
		return nil, asToolError(err)
	}
	return json.RawMessage(`{"shown":true}`), nil
}

// kindOf has the types and media types of artifacts by file extension.
var kindOf = map[string][2]string{
	".md": {"file", "text/markdown"}, ".txt": {"file", "text/plain"}, ".html": {"html", "text/html"}, ".csv": {"file", "text/csv"},
	".json": {"code", "application/json"}, ".svg": {"image", "image/svg+xml"}, ".go": {"code", "text/plain"}, ".py": {"code", "text/plain"},
	".js": {"code", "text/javascript"}, ".ts": {"code", "text/plain"}, ".yaml": {"code", "text/plain"}, ".sql": {"code", "text/plain"},
}

func publishArtifact(ctx context.Context, c Call) (json.RawMessage, error) {
	var in struct {
		Title     string          `json:"title"`
		Type      string          `json:"type"`
		Path      string          `json:"path"`
		Content   json.RawMessage `json:"content"`
		Language  string          `json:"language"`
		MediaType string          `json:"media_type"`
	}
	if err := c.Read(&in); err != nil {
		return nil, err
	}
	var text string
	if json.Unmarshal(in.Content, &text) != nil {
		text = string(in.Content) // some models send the value itself instead of a string
	}
	if text == "" {
		return nil, &Error{Code: Invalid, Msg: "content is empty"}
	}
	a := chat.AgentArtifact{ArtifactID: "a-" + safe(c.ID), ArtifactType: in.Type, Title: in.Title, Language: in.Language, MediaType: in.MediaType}
	if (in.Type == "table" || in.Type == "chart") && json.Valid([]byte(text)) && len(text) <= 32<<10 {
		a.Data = json.RawMessage(text)
		if err := c.Turn.Artifact(ctx, a); err != nil {
			return nil, asToolError(err)
		}
		return json.Marshal(map[string]string{"artifact_id": a.ArtifactID})
	}
	a.Path = cleanPath(in.Path, in.Title)
	known := kindOf[strings.ToLower(path.Ext(a.Path))]
	a.ArtifactType = cmp.Or(a.ArtifactType, known[0], "file")
	a.MediaType = cmp.Or(a.MediaType, known[1], "text/plain")
	if err := c.Turn.File(ctx, a, bytes.NewReader([]byte(text))); err != nil {
		return nil, asToolError(err)
	}
	return json.Marshal(map[string]string{"artifact_id": a.ArtifactID, "path": a.Path})
}

// cleanPath returns a relative path that does not leave its folder.
func cleanPath(p, title string) string {
	p = cmp.Or(p, safe(title)+".md")
	p = strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(p, `\`, "/")), "/")
	return cmp.Or(p, "file.txt")
}

// safe replaces the characters that a file name or an id must not have.
func safe(s string) string {
	out := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, s)
	out = strings.Trim(out[:min(len(out), 60)], "-")
	return cmp.Or(out, "file")
}

func requestPermission(ctx context.Context, c Call) (json.RawMessage, error) {
	var in struct {
		Scopes        []string `json:"scopes"`
		Justification string   `json:"justification"`
		Timeout       float64  `json:"timeout"`
	}
	if err := c.Read(&in); err != nil {
		return nil, err
	}
	if len(in.Scopes) == 0 {
		return nil, &Error{Code: Invalid, Msg: "scopes is missing: what you want to be allowed"}
	}
	answer, err := c.Turn.Permit(ctx, chat.AgentPermissionRequest{Scopes: in.Scopes, Justification: in.Justification, Timeout: in.Timeout})
	switch {
	case errors.Is(err, agent.ErrExpired):
		return json.RawMessage(`{"granted":[],"reason":"nobody answered in time"}`), nil
	case errors.Is(err, agent.ErrWithdrawn):
		return json.RawMessage(`{"granted":[],"reason":"the question was withdrawn"}`), nil
	case err != nil:
		return nil, asToolError(err)
	}
	if answer.Granted == nil {
		answer.Granted = []string{}
	}
	return json.Marshal(map[string]any{"granted": answer.Granted, "denied": answer.Denied, "duration": cmp.Or(answer.Duration, "once")})
}

// asToolError turns a refusal of the session into an error of the tool, so that
// the model can correct its call. Other errors end the turn.
func asToolError(err error) error {
	switch chat.CodeOf(err) {
	case chat.Invalid, chat.TooLarge, chat.SlowDown, chat.NotFound:
		return &Error{Code: Invalid, Msg: chat.Public(err).Msg, Err: err}
	case chat.Conflict:
		return &Error{Code: Failed, Msg: chat.Public(err).Msg, Err: err}
	}
	return err
}
