package terminal

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/json"
)

// Lines is a conversation over plain lines, for pipes and scripts: each input line is a message, or the answer to a
// prompt.
type Lines struct {
	Client   *client.Client
	Session  chat.Session
	In       io.Reader
	Out, Err io.Writer
	Explain  func(error) string // formats an error for a person

	input *bufio.Scanner
}

var errNoMore = errors.New("the input ended while the agent waits for an answer")

// Run sends the lines of the input until it ends. A turn that fails is reported, and the next line is sent.
func (p *Lines) Run(ctx context.Context) error {
	p.input = bufio.NewScanner(p.In)
	p.input.Buffer(nil, chat.MaxEvent)
	if err := p.finishRunningTurn(ctx); err != nil {
		return err
	}
	for p.input.Scan() {
		text := strings.TrimSpace(p.input.Text())
		if text == "" {
			continue
		}
		e, err := p.Client.Say(ctx, p.Session.ID, text)
		if err != nil {
			return err
		}
		if p.Session.Agent == chat.NoAgent {
			continue
		}
		if err := p.wait(ctx, e, func(chat.Prompt) bool { return true }); err != nil {
			return err
		}
	}
	return p.input.Err()
}

// finishRunningTurn prints the rest of the answer of the running turn and asks its prompts, because the first message would wait for its end.
func (p *Lines) finishRunningTurn(ctx context.Context) error {
	open, s, err := openPrompts(ctx, p.Client, p.Session.ID)
	i := slices.IndexFunc(s.State.Turns, func(t chat.TurnView) bool { return t.Workstream == "" })
	if err != nil || i < 0 || len(open) == 0 && s.Session.Policy != chat.Queue {
		return err
	}
	return p.wait(ctx, chat.Event{Session: p.Session.ID, Seq: s.State.Turns[i].Trigger}, func(q chat.Prompt) bool {
		return q.Seq > s.Cursor.Seq || slices.ContainsFunc(open, func(o chat.Prompt) bool { return o.RequestID == q.RequestID })
	})
}

// wait prints the answer to a message and asks those of its prompts that are open. A turn that fails is reported.
func (p *Lines) wait(ctx context.Context, message chat.Event, open func(chat.Prompt) bool) error {
	r := &Reply{Out: p.Out, Note: func(text string) { fmt.Fprintln(p.Out, text) }, Asked: func(ctx context.Context, q chat.Prompt) error {
		if !open(q) {
			return nil
		}
		return p.ask(ctx, q)
	}}
	err := r.Wait(ctx, p.Client, message)
	if err == nil || ctx.Err() != nil || chat.CodeOf(err) != chat.Internal || errors.Is(err, errNoMore) {
		return err
	}
	fmt.Fprintln(p.Err, "parley: "+p.Explain(err))
	return nil
}

// ask prints a prompt and reads lines until one is accepted as its answer.
func (p *Lines) ask(ctx context.Context, q chat.Prompt) error {
	showPrompt(p.Out, &q)
	for {
		if !p.input.Scan() {
			return errors.Join(errNoMore, p.input.Err())
		}
		a, err := answerLine(&q, p.input.Text())
		if err == nil {
			_, err = p.Client.Answer(ctx, p.Session.ID, q.RequestID, a)
		}
		switch chat.CodeOf(err) {
		case "":
			return nil
		case chat.Invalid:
			fmt.Fprintln(p.Err, "parley: "+p.Explain(err))
		case chat.Conflict, chat.Gone, chat.NotFound:
			fmt.Fprintln(p.Err, "parley: "+p.Explain(err)) // it was answered by another person, or has expired
			return nil
		default:
			return err
		}
	}
}

// showPrompt prints a prompt and how it can be answered.
func showPrompt(w io.Writer, q *chat.Prompt) {
	fmt.Fprintf(w, "? %s\n", Sanitize(PromptTitle(q)))
	switch {
	case q.Input != nil:
		for i, o := range q.Input.Options {
			fmt.Fprintf(w, "  %d. %s\n", i+1, OneLine(cmp.Or(o.Label, o.Answer())))
		}
		if q.Input.InputType == chat.InputCheckbox {
			fmt.Fprintln(w, "  (numbers or names, separated by commas)")
		}
		if q.Input.InputType == chat.InputOAuth && q.Input.URL != "" {
			fmt.Fprintf(w, "  open %s, then answer with any line\n", Sanitize(q.Input.URL))
		}
	case q.Approval != nil:
		for _, c := range q.Approval.Calls {
			fmt.Fprintf(w, "  %s %s\n", OneLine(c.Tool), OneLine(string(c.Params)))
		}
		fmt.Fprintln(w, "  (yes, yes {changed arguments}, always, or no REASON)")
	default:
		fmt.Fprintln(w, "  (yes, no, or the scopes to grant)")
	}
}

// answerLine reads an answer from one line.
func answerLine(q *chat.Prompt, line string) (chat.Answer, error) {
	line = strings.TrimSpace(line)
	word, rest, _ := strings.Cut(line, " ")
	word = strings.ToLower(strings.TrimRight(word, ",:."))
	yes := word == "y" || word == "yes"
	no := word == "n" || word == "no"
	switch {
	case q.Approval != nil:
		if !yes && !no && word != "always" {
			return chat.Answer{}, chat.Errorf(chat.Invalid, "answer yes, yes {changed arguments}, always, or no REASON")
		}
		changed, err := changedArguments(q, strings.TrimSpace(rest), !no)
		if err != nil {
			return chat.Answer{}, err
		}
		var a chat.Answer
		for _, c := range q.Approval.Calls {
			d := chat.Decision{CallID: c.CallID, Approve: !no, Params: changed}
			if no {
				d.Reason = strings.TrimSpace(rest)
			}
			if word == "always" {
				d.Remember = "session"
			}
			a.Decisions = append(a.Decisions, d)
		}
		return a, nil
	case q.Permission != nil:
		granted := []string{}
		if yes {
			granted = q.Permission.Scopes
		} else if !no {
			granted = strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == ' ' })
		}
		return chat.Answer{Granted: &granted}, nil
	}
	if len(q.Input.Options) == 0 {
		return chat.Answer{Text: line}, nil
	}
	return chat.Answer{Values: choices(q.Input, line)}, nil
}

// changedArguments reads the arguments that a person puts behind the approval of a call; nil if there are none.
func changedArguments(q *chat.Prompt, text string, approve bool) (json.RawMessage, error) {
	if !approve || !strings.HasPrefix(text, "{") {
		return nil, nil
	}
	if len(q.Approval.Calls) != 1 {
		return nil, chat.Errorf(chat.Invalid, "the arguments can be changed only if there is one call")
	}
	if !json.Valid([]byte(text)) {
		return nil, chat.Errorf(chat.Invalid, "the arguments are not valid JSON")
	}
	return json.RawMessage(text), nil
}

// choices reads options by number, value, id or label.
func choices(in *chat.AgentInputRequest, line string) []string {
	parts := []string{line}
	if in.InputType == chat.InputCheckbox {
		parts = strings.Split(line, ",")
	}
	var values []string
	for _, part := range parts {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if n, err := strconv.Atoi(part); err == nil && n >= 1 && n <= len(in.Options) {
			part = in.Options[n-1].Answer()
		}
		for _, o := range in.Options {
			if strings.EqualFold(part, o.Label) || strings.EqualFold(part, o.ID) {
				part = o.Answer()
				break
			}
		}
		values = append(values, part)
	}
	return values
}
