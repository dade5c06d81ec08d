package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// plainChat is a conversation over plain lines, for pipes and scripts.
type plainChat struct {
	cl      *client.Client
	session chat.Session
	std     *stdio
	lines   *bufio.Scanner
}

// errNoMore says that the input ended while the agent waits for an answer.
var errNoMore = errors.New("the input ended while the agent waits for an answer")

func (p *plainChat) run(ctx context.Context) error {
	p.lines = bufio.NewScanner(p.std.in)
	p.lines.Buffer(nil, chat.MaxEvent)
	for p.lines.Scan() {
		text := strings.TrimSpace(p.lines.Text())
		if text == "" {
			continue
		}
		e, err := p.cl.Say(ctx, p.session.ID, text)
		if err != nil {
			return err
		}
		if p.session.Agent == chat.NoAgent {
			continue
		}
		r := &reply{out: p.std.out, asked: p.ask, note: func(text string) { fmt.Fprintln(p.std.out, text) }}
		if err := r.wait(ctx, p.cl, e); err != nil {
			if ctx.Err() != nil || chat.CodeOf(err) != chat.Internal || errors.Is(err, errNoMore) {
				return err
			}
			fmt.Fprintln(p.std.err, "parley: "+explain(err)) // a turn that failed; the next line may do better
		}
	}
	return p.lines.Err()
}

// ask shows a question and takes lines until one is accepted.
func (p *plainChat) ask(ctx context.Context, q chat.Prompt) error {
	showPrompt(p.std.out, &q)
	for {
		if !p.lines.Scan() {
			return errors.Join(errNoMore, p.lines.Err())
		}
		a, err := answerLine(&q, p.lines.Text())
		if err == nil {
			_, err = p.cl.Answer(ctx, p.session.ID, q.RequestID, a)
		}
		switch chat.CodeOf(err) {
		case "":
			return nil
		case chat.Invalid:
			fmt.Fprintln(p.std.err, "parley: "+explain(err))
		case chat.Conflict, chat.Gone, chat.NotFound:
			fmt.Fprintln(p.std.err, "parley: "+explain(err)) // somebody else answered, or it expired
			return nil
		default:
			return err
		}
	}
}

// showPrompt prints a question and how it can be answered.
func showPrompt(w io.Writer, q *chat.Prompt) {
	fmt.Fprintf(w, "? %s\n", plain(promptTitle(q)))
	switch {
	case q.Input != nil:
		for i, o := range q.Input.Options {
			fmt.Fprintf(w, "  %d. %s\n", i+1, oneLine(firstOf(o.Label, o.Answer())))
		}
		if q.Input.InputType == chat.InputCheckbox {
			fmt.Fprintln(w, "  (numbers or names, separated by commas)")
		}
		if q.Input.InputType == chat.InputOAuth && q.Input.URL != "" {
			fmt.Fprintf(w, "  open %s, then answer with any line\n", plain(q.Input.URL))
		}
	case q.Approval != nil:
		for _, c := range q.Approval.Calls {
			fmt.Fprintf(w, "  %s %s\n", oneLine(c.Tool), oneLine(string(c.Params)))
		}
		fmt.Fprintln(w, "  (yes, always, or no REASON)")
	default:
		fmt.Fprintln(w, "  (yes, no, or the scopes to grant)")
	}
}

// answerLine reads an answer out of one line.
func answerLine(q *chat.Prompt, line string) (chat.Answer, error) {
	line = strings.TrimSpace(line)
	word, rest, _ := strings.Cut(line, " ")
	word = strings.ToLower(strings.TrimRight(word, ",:."))
	yes := word == "y" || word == "yes"
	no := word == "n" || word == "no"
	switch {
	case q.Approval != nil:
		if !yes && !no && word != "always" {
			return chat.Answer{}, chat.Errorf(chat.Invalid, "answer yes, always, or no REASON")
		}
		var a chat.Answer
		for _, c := range q.Approval.Calls {
			d := chat.Decision{CallID: c.CallID, Approve: !no}
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
