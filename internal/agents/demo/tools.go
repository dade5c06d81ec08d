package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sleep"
)

// toolArgs reads "NAME JSON"; no JSON is an empty object.
func toolArgs(args string) (name string, params json.RawMessage, ok bool) {
	name, rest, _ := strings.Cut(args, " ")
	rest = strings.TrimSpace(rest)
	if rest == "" {
		rest = "{}"
	}
	return name, json.RawMessage(rest), name != "" && json.Valid([]byte(rest))
}

func tool(ctx context.Context, t *agent.Turn, args string) error {
	name, params, ok := toolArgs(args)
	if !ok {
		return say(ctx, t, "Usage: /tool NAME JSON")
	}
	if isClientTool(t, name) {
		return approve(ctx, t, args)
	}
	result, err := call(ctx, t, name, params, 0)
	if err != nil {
		return err
	}
	return say(ctx, t, fmt.Sprintf("%s gave %s", name, result))
}

// isClientTool reports whether the client that sent the message executes a tool.
func isClientTool(t *agent.Turn, name string) bool {
	return slices.ContainsFunc(t.ClientTools(), func(c chat.ClientTool) bool { return c.Name == name })
}

// call runs a tool that takes a while and returns its parameters.
func call(ctx context.Context, t *agent.Turn, name string, params json.RawMessage, duration time.Duration) (json.RawMessage, error) {
	return t.Call(ctx, name, params, agent.CallOptions{Repeatable: true}, func(ctx context.Context) (json.RawMessage, error) {
		if duration > 0 {
			if err := sleep.For(ctx, duration); err != nil {
				return nil, err
			}
		}
		return params, nil
	})
}

func toolFail(ctx context.Context, t *agent.Turn, name string) error {
	if name == "" {
		return say(ctx, t, "Usage: /toolfail NAME")
	}
	if err := failing(ctx, t, name); err != nil {
		return err
	}
	return say(ctx, t, fmt.Sprintf("%s failed.", name))
}

// failing calls a tool that fails. It returns other errors only.
func failing(ctx context.Context, t *agent.Turn, name string) error {
	broken := errors.New(name + " failed on request")
	_, err := t.Call(ctx, name, json.RawMessage("{}"), agent.CallOptions{Repeatable: true}, func(context.Context) (json.RawMessage, error) {
		return nil, broken
	})
	if err != nil && err.Error() == broken.Error() {
		return nil
	}
	return err
}

// timeout cuts "timeout=S" off the end of the arguments.
func timeout(args string) (rest string, seconds float64) {
	i := strings.LastIndexByte(args, ' ')
	v, ok := strings.CutPrefix(args[i+1:], "timeout=")
	if !ok {
		return args, 0
	}
	s, err := strconv.ParseFloat(v, 64)
	if err != nil || !(s > 0 && s <= chat.MaxTimeout) {
		return args, 0 // the command then refuses its arguments
	}
	return strings.TrimSpace(args[:max(i, 0)]), s
}

var choices = []chat.Option{
	{ID: "email", Label: "Email", Value: "email", Description: "A message to the address on file"},
	{ID: "sms", Label: "SMS", Value: "sms", Description: "A text to the phone on file"},
	{ID: "push", Label: "Push", Value: "push", Description: "A push notification"},
}

// question is the prompt of an input type.
func question(typ chat.InputType, seconds float64) (chat.AgentInputRequest, bool) {
	q := chat.AgentInputRequest{InputType: typ, Timeout: seconds}
	if seconds > 0 {
		q.Error = "This prompt is no longer available."
	}
	switch typ {
	case chat.InputText:
		q.Text, q.Placeholder = "What is your name?", "Your name"
	case chat.InputBinary:
		q.Text = "Continue?"
		q.Options = []chat.Option{{ID: "continue", Label: "Continue", Value: "continue"}, {ID: "cancel", Label: "Cancel", Value: "cancel"}}
	case chat.InputRadio, chat.InputDropdown:
		q.Text, q.Options = "How should I notify you?", choices
	case chat.InputCheckbox:
		q.Text, q.Options = "How may I notify you? Choose one or more.", choices
	case chat.InputNotification:
		q.Text = "This is a notification."
	case chat.InputOAuth:
		q.Text, q.URL = "https://example.com/oauth/authorize?client_id=demo", "https://example.com/oauth/authorize?client_id=demo"
	default:
		return q, false
	}
	return q, true
}

func ask(ctx context.Context, t *agent.Turn, args string) error {
	rest, seconds := timeout(args)
	q, ok := question(chat.InputType(strings.TrimSpace(rest)), seconds)
	if !ok {
		return say(ctx, t, "Usage: /ask text|binary_choice|radio|checkbox|dropdown|notification|oauth_consent [timeout=S]")
	}
	answer, err := t.Ask(ctx, q)
	switch {
	case errors.Is(err, agent.ErrExpired):
		return say(ctx, t, "No answer in time.")
	case err != nil:
		return err
	case q.InputType == chat.InputNotification:
		return say(ctx, t, "Notified.")
	}
	return say(ctx, t, "You answered: "+answerText(answer))
}

func answerText(a chat.UserInputResponse) string {
	return cmp.Or(strings.Join(a.Values, ", "), a.Text)
}

func approve(ctx context.Context, t *agent.Turn, args string) error {
	rest, seconds := timeout(args)
	name, params, ok := toolArgs(strings.TrimSpace(rest))
	if !ok {
		return say(ctx, t, "Usage: /approve NAME JSON [timeout=S]")
	}
	id := "c" + t.Label() + "-approve"
	decisions, err := t.Approve(ctx, chat.AgentApprovalRequest{
		Text: "May I run " + name + "?", Timeout: seconds,
		Calls: []chat.ApprovalCall{{CallID: id, Tool: name, Params: params, Client: isClientTool(t, name)}},
	})
	if errors.Is(err, agent.ErrExpired) {
		return say(ctx, t, "No answer in time.")
	}
	if err != nil {
		return err
	}
	d := decisions[0]
	if !d.Approve {
		return say(ctx, t, "Denied: "+cmp.Or(d.Reason, "no reason given"))
	}
	if len(d.Params) > 0 {
		params = d.Params // the person changed them
	}
	result, err := t.Call(ctx, name, params, agent.CallOptions{CallID: id, Repeatable: true}, func(context.Context) (json.RawMessage, error) {
		switch {
		case d.Error != "":
			return nil, errors.New(d.Error) // the client executed it
		case d.Ran():
			return d.Result, nil
		}
		return params, nil
	})
	if d.Error != "" && err != nil && err.Error() == d.Error {
		return say(ctx, t, name+" failed: "+d.Error)
	}
	if err != nil {
		return err
	}
	return say(ctx, t, fmt.Sprintf("%s gave %s", name, result))
}

func permission(ctx context.Context, t *agent.Turn, args string) error {
	scopes := strings.Fields(args)
	if len(scopes) == 0 {
		return say(ctx, t, "Usage: /permission SCOPE…")
	}
	answer, err := t.Permit(ctx, chat.AgentPermissionRequest{Scopes: scopes, Justification: "The demo was asked to ask."})
	if errors.Is(err, agent.ErrExpired) {
		return say(ctx, t, "No answer in time.")
	}
	if err != nil {
		return err
	}
	var parts []string
	if len(answer.Granted) > 0 {
		parts = append(parts, "Granted: "+strings.Join(answer.Granted, ", "))
	}
	if len(answer.Denied) > 0 {
		parts = append(parts, "Denied: "+strings.Join(answer.Denied, ", "))
	}
	return say(ctx, t, strings.Join(parts, ". "))
}

func plan(ctx context.Context, t *agent.Turn, args string) error {
	var n int
	var seconds float64
	if !numbers(args, &n, &seconds) || n < 1 || n > 100 || seconds < 0 || seconds > 3600 {
		return say(ctx, t, "Usage: /plan N [SECONDS], with N from 1 to 100.")
	}
	messages, err := advance(ctx, t, n, seconds)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("All %d tasks are done.", n)
	if len(messages) > 0 {
		text += " Messages received meanwhile: " + strings.Join(messages, "; ")
	}
	return say(ctx, t, text)
}

// advance shows a plan whose tasks become done one after the other within so many seconds after the start of the turn.
// It returns the messages that users sent meanwhile in a session with the policy steer.
func advance(ctx context.Context, t *agent.Turn, n int, seconds float64) (messages []string, _ error) {
	started, err := t.Started(ctx)
	if err != nil {
		return nil, err
	}
	titles := make([]string, n)
	for i := range titles {
		titles[i] = fmt.Sprintf("Task %d", i+1)
	}
	for done := 0; done <= n; done++ {
		due := started.At.Time().Add(time.Duration(float64(done) / float64(n) * seconds * float64(time.Second)))
		if err := sleep.For(ctx, time.Until(due)); err != nil {
			return nil, err
		}
		if err := t.Plan(ctx, planWith(titles, done)); err != nil {
			return nil, err
		}
		fresh, err := t.NewMessages(ctx)
		if err != nil {
			return nil, err
		}
		for _, m := range fresh {
			messages = append(messages, m.Text)
		}
	}
	return messages, nil
}

// planWith returns a plan whose first tasks are done; the one after them is in progress.
func planWith(titles []string, done int) (p chat.AgentPlan) {
	for i, title := range titles {
		status := "pending"
		if i < done {
			status = "done"
		} else if i == done {
			status = "in_progress"
		}
		p.Tasks = append(p.Tasks, chat.Task{ID: strconv.Itoa(i + 1), Title: title, Status: status})
	}
	return p
}

// Tools lists the tools that the demo agent uses without being asked; /tool accepts any name.
func (Agent) Tools(context.Context) (tools []agent.ToolInfo, known bool) {
	return []agent.ToolInfo{
		{Name: "look_up", Description: "Gives back what a part of /work looks up."},
		{Name: "search", Description: "Gives back what it is asked to look for."},
	}, true
}
