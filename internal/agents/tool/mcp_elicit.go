package tool

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// elicit asks the person whose call the server executes.
func (s *Server) elicit(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	u, ok := ctx.Value(callKey{}).(*runningCall) // newer servers ask in the response to the call
	if !ok {
		u = s.calls.only()
	}
	if u == nil {
		s.opt.Logger.WarnContext(ctx, "a question of an MCP server was declined, because several conversations use the server at once and the question does not name its call; set exclusive", "server", s.opt.Name)
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	defer u.clock.hold()()
	asking, cancel := context.WithCancelCause(u.ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { // the server withdrew the question, or the connection is closed
		if u.ctx.Err() == nil {
			cancel(agent.ErrNotNeeded)
		}
	})()
	form, err := readForm(r.Params)
	if err != nil {
		return nil, err
	}
	// A repeated call asks the same form, and gets the answer that was given.
	sum := sha256.Sum256(form.raw)
	result, err := form.ask(asking, u.call.Turn.Part("e"+hex.EncodeToString(sum[:6])))
	if errors.Is(err, agent.ErrExpired) || errors.Is(err, agent.ErrWithdrawn) {
		return &mcp.ElicitResult{Action: "cancel"}, nil
	}
	return result, err
}

// callKey is the context key of the running call.
type callKey struct{}

// form has the fields that a server asks for.
type form struct {
	raw     []byte
	message string
	url     string
	fields  []field
}

// field is one field of a form.
type field struct {
	name     string
	required bool
	schema
}

// schema is the schema of a field, as far as the protocol allows it.
type schema struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Enum        []string `json:"enum"`
	EnumNames   []string `json:"enumNames"`
	OneOf       []choice `json:"oneOf"`
	AnyOf       []choice `json:"anyOf"`
	Items       *schema  `json:"items"`
	MinItems    int      `json:"minItems"`
	MaxItems    int      `json:"maxItems"`
	Default     any      `json:"default"`
	Minimum     *float64 `json:"minimum"`
	Maximum     *float64 `json:"maximum"`
	MinLength   *int     `json:"minLength"`
	MaxLength   *int     `json:"maxLength"`
}

type choice struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

func readForm(p *mcp.ElicitParams) (*form, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	f := &form{raw: raw, message: p.Message, url: p.URL}
	if p.RequestedSchema == nil {
		return f, nil
	}
	b, err := json.Marshal(p.RequestedSchema)
	if err != nil {
		return nil, err
	}
	var object struct {
		Properties map[string]schema `json:"properties"`
		Required   []string          `json:"required"`
	}
	if err := json.Unmarshal(b, &object); err != nil {
		return nil, fmt.Errorf("the requested schema cannot be read: %w", err)
	}
	for _, name := range object.Required {
		if s, ok := object.Properties[name]; ok {
			f.fields = append(f.fields, field{name, true, s})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object.Properties)) {
		if !slices.Contains(object.Required, name) {
			f.fields = append(f.fields, field{name, false, object.Properties[name]})
		}
	}
	return f, nil
}

// The values of the options to decline and to skip a field.
const (
	declined = "__decline"
	skipped  = "__skip"
)

// ask asks for the fields one after the other.
func (f *form) ask(ctx context.Context, t *agent.Turn) (*mcp.ElicitResult, error) {
	if f.url != "" {
		_, err := t.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputOAuth, Text: f.message, URL: f.url})
		return &mcp.ElicitResult{Action: "accept"}, err
	}
	if len(f.fields) == 0 {
		a, err := t.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputBinary, Text: f.message, Options: []chat.Option{
			{ID: "accept", Label: "Accept", Value: "accept"}, {ID: "decline", Label: "Decline", Value: "decline"},
		}})
		action := "decline"
		if answerText(a) == "accept" {
			action = "accept"
		}
		return &mcp.ElicitResult{Action: action, Content: map[string]any{}}, err
	}
	content := map[string]any{}
	for i := range f.fields {
		v, given, err := f.fields[i].ask(ctx, t, f.message)
		if err != nil {
			return nil, err
		}
		if !given && f.fields[i].required {
			return &mcp.ElicitResult{Action: "decline"}, nil
		}
		if given {
			content[f.fields[i].name] = v
		}
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}, nil
}

// ask asks for one field until the answer is valid or the person declines.
func (f *field) ask(ctx context.Context, t *agent.Turn, message string) (value any, given bool, err error) {
	q := f.prompt(message)
	for {
		a, err := t.Ask(ctx, q)
		if err != nil {
			return nil, false, err
		}
		text := answerText(a)
		if text == declined || text == skipped || text == "" && len(a.Values) == 0 {
			return nil, false, nil
		}
		value, problem := f.value(a)
		if problem == "" {
			return value, true, nil
		}
		q.Text = problem + "\n\n" + f.prompt(message).Text
	}
}

func (f *field) prompt(message string) chat.AgentInputRequest {
	no, optional := false, ""
	q := chat.AgentInputRequest{InputType: chat.InputText, Required: &no}
	if !f.required {
		optional = " (optional)"
	}
	q.Text = strings.TrimSpace(message + "\n\n" + cmp.Or(f.Title, f.name) + optional)
	if f.Description != "" {
		q.Text += ": " + f.Description
	}
	none := chat.Option{ID: declined, Label: "Decline", Value: declined}
	if !f.required {
		none = chat.Option{ID: skipped, Label: "No answer", Value: skipped}
	}
	options := f.options()
	switch {
	case f.Type == "boolean":
		q.InputType = chat.InputRadio
		q.Options = []chat.Option{{ID: "true", Label: "Yes", Value: "true"}, {ID: "false", Label: "No", Value: "false"}, none}
	case f.Type == "array" && len(options) > 0:
		q.InputType, q.Options, q.Max = chat.InputCheckbox, options, f.MaxItems
	case len(options) > 6:
		q.InputType, q.Options = chat.InputDropdown, append(options, none)
	case len(options) > 0:
		q.InputType, q.Options = chat.InputRadio, append(options, none)
	default:
		if q.Placeholder = "Leave it empty to decline"; !f.required {
			q.Placeholder = "May be left empty"
		}
		if f.Default != nil {
			q.Placeholder = fmt.Sprint(f.Default)
		}
	}
	return q
}

// options are the choices of a field.
func (f *schema) options() []chat.Option {
	s := f
	if f.Items != nil {
		s = f.Items
	}
	var out []chat.Option
	for _, c := range slices.Concat(s.OneOf, s.AnyOf) {
		out = append(out, chat.Option{ID: c.Const, Label: cmp.Or(c.Title, c.Const), Value: c.Const})
	}
	for i, e := range s.Enum {
		label := e
		if i < len(s.EnumNames) {
			label = s.EnumNames[i]
		}
		out = append(out, chat.Option{ID: e, Label: label, Value: e})
	}
	return out
}

func answerText(a chat.UserInputResponse) string {
	if len(a.Values) > 0 {
		return a.Values[0]
	}
	return strings.TrimSpace(a.Text)
}

// value returns the answer in the type of the field, or what is wrong with it.
func (f *field) value(a chat.UserInputResponse) (value any, problem string) {
	text := answerText(a)
	switch f.Type {
	case "boolean":
		return text == "true", ""
	case "array":
		values := a.Values
		if len(values) == 0 {
			values = []string{text}
		}
		if len(values) < f.MinItems {
			return nil, fmt.Sprintf("At least %d have to be chosen.", f.MinItems)
		}
		return values, ""
	case "integer", "number":
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || f.Type == "integer" && n != math.Trunc(n) {
			return nil, "That is no number of the kind that is needed: " + text
		}
		if f.Minimum != nil && n < *f.Minimum || f.Maximum != nil && n > *f.Maximum {
			return nil, "That number is out of range: " + text
		}
		return n, ""
	}
	if n := len([]rune(text)); f.MinLength != nil && n < *f.MinLength || f.MaxLength != nil && n > *f.MaxLength {
		return nil, fmt.Sprintf("That has %d characters, which is not as many as are allowed.", n)
	}
	return text, ""
}
