package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/dialecttest"
	"github.com/parley-hq/parley/internal/sleep"
)

// round is one message and what must follow from it.
type round struct {
	text     string
	want     string // the text of the agent, after the answer if it asks
	asks     bool
	approves bool           // the question is whether a tool may be called
	answers  map[int]string // the keys of the answers, by the clients that give them
	stopped  bool
	stopErr  error
}

// shows checks how a client saw a turn end. Vertesia and NeMo show no difference between a turn that is stopped and one that is done,
// Letta none between a question and an answer.
func shows(dialect string, s dialecttest.Seen, want dialecttest.End) error {
	if s.End == want || s.End == "" {
		return nil
	}
	if s.End == dialecttest.Done && (want == dialecttest.Stopped && (dialect == "vertesia" || dialect == "nemo") || want == dialecttest.Asks && dialect == "letta") {
		return nil
	}
	return &dialectError{dialect, fmt.Errorf("the turn is %q, the client saw %q", want, s.End)}
}

// check compares what the clients have seen in a round with the log, and the log with what was sent.
func (k *talk) check(ctx context.Context, r *round, seen []dialecttest.Seen) error {
	events, err := k.stored(ctx, r)
	if err != nil {
		return err
	}
	var messages []string
	var answers []chat.Event
	text, outcome, first := "", chat.Outcome(""), chat.TurnID("")
	for _, e := range events {
		switch b := e.Body.(type) {
		case chat.UserMessage:
			messages = append(messages, b.Text)
		case chat.AgentInputRequest, chat.AgentApprovalRequest:
			text = ""
		case chat.TurnStarted:
			first = cmp.Or(first, b.TurnID)
		case chat.AgentText:
			if e.Turn == first {
				text += b.Text
			}
		case chat.TurnCompleted:
			if outcome == "" {
				outcome = b.Outcome
			}
		}
		if chat.AnswerOf(e.Body) != "" {
			answers = append(answers, e)
		}
	}
	sent, end := []string{r.text}, chat.Done
	if r.stopped {
		if end = chat.Stopped; k.replaces() {
			sent = append(sent, "instead")
		}
	}
	switch {
	case !slices.Equal(messages, sent):
		return &logError{fmt.Errorf("the messages %q are stored, %q were sent", messages, sent)}
	case outcome != end:
		return fmt.Errorf("the turn ended as %s", outcome)
	case !r.stopped && text != r.want || !strings.HasPrefix(streamed(100_000), text) && r.stopped:
		return &logError{fmt.Errorf("the log has the text %q, not %q", dialecttest.Clip(text), dialecttest.Clip(r.want))}
	case r.asks && len(answers) != 1:
		return &logError{fmt.Errorf("%d answers are stored", len(answers))}
	}
	if r.asks {
		if err := k.checkAnswers(r, seen, &answers[0]); err != nil {
			return err
		}
	}
	for i, s := range seen {
		k.count(k.clients[i].dialect, func(n *talkCounts) { n.repeated += s.Repeated })
		if s.End == "" {
			continue
		}
		dialect := k.clients[i].dialect
		if err := shows(dialect, s, dialecttest.End(end)); err != nil {
			return err
		}
		if dialect == "nemo" {
			if err := k.checkNemo(s, text, r.stopped); err != nil {
				return err
			}
		} else if got := strings.Join(s.Texts, ""); got != text {
			return &dialectError{dialect, fmt.Errorf("the client has %d bytes of text, the log %d: %s; %s", len(got), len(text), dialecttest.Difference(got, text), summary(events))}
		}
	}
	k.last = events[len(events)-1].Seq
	return nil
}

// checkAnswers checks that the client whose answer is stored was not told that it came late, and that the other one was.
func (k *talk) checkAnswers(r *round, seen []dialecttest.Seen, stored *chat.Event) error {
	found := false
	for i, key := range r.answers {
		dialect := k.clients[i].dialect
		counts := isAnswer(stored.ClientID, dialect, key)
		found = found || counts
		switch late := seen[i].Late; {
		case counts && late:
			return &dialectError{dialect, errors.New("the answer counts, and the client was told that it came late")}
		case !counts && !late && dialecttest.TellsLate(dialect):
			return &dialectError{dialect, errors.New("the answer came late, and the client was not told")}
		}
	}
	if !found {
		return &logError{fmt.Errorf("the answer with the client_id %q is stored, %q were sent", stored.ClientID, slices.Sorted(maps.Values(r.answers)))}
	}
	return nil
}

// isAnswer reports whether the stored answer with a client id is the one that a client of a dialect has given with a key.
func isAnswer(clientID, dialect, key string) bool {
	switch dialect {
	case "aisdk":
		return clientID == ""
	case "agui":
		return strings.HasSuffix(clientID, ":r-"+key)
	}
	return clientID == key
}

// replaces reports whether a turn of this conversation is stopped by a message.
func (k *talk) replaces() bool { return len(k.clients) == 1 && k.clients[0].dialect == "nemo" }

// stored waits until the turns of a round have ended, and returns its events.
func (k *talk) stored(ctx context.Context, r *round) ([]chat.Event, error) {
	turns := 1
	if r.stopped && k.replaces() {
		turns = 2
	}
	for {
		var events []chat.Event
		ended := 0
		for e, err := range k.log.Events(ctx, k.id, client.EventQuery{After: k.last}) {
			if err != nil {
				return nil, err
			}
			events = append(events, e)
			if _, ok := e.Body.(chat.TurnCompleted); ok {
				ended++
			}
		}
		if ended >= turns {
			return events, nil
		}
		if sleep.For(ctx, 50*time.Millisecond) != nil {
			return nil, fmt.Errorf("%d of %d turns have ended: %w", ended, turns, context.Cause(ctx))
		}
	}
}

// checkNemo compares the texts of NeMo's connections with the log. A connection may begin with text that was
// shown before, and must not leave out any. The text of a turn that was replaced need not be complete.
func (k *talk) checkNemo(s dialecttest.Seen, want string, stopped bool) error {
	has := 0
	for i, text := range s.Texts {
		begin := has
		for ; begin >= 0 && !strings.HasPrefix(want[begin:], text); begin-- {
		}
		if begin < 0 {
			return &dialectError{"nemo", fmt.Errorf("connection %d of %d continues after %d bytes with %q; the texts are %s; %s", i+1, len(s.Texts), has, dialecttest.Clip(text), places(s.Texts, want), s.Path)}
		}
		if text != "" {
			k.count("nemo", func(n *talkCounts) { n.repeated += has - begin })
			has = max(has, begin+len(text))
		}
	}
	if has != len(want) && !stopped {
		return &dialectError{"nemo", fmt.Errorf("the client has %d bytes of %d; %s", has, len(want), s.Path)}
	}
	return nil
}

// summary tells what the log has of a round, for an error.
func summary(events []chat.Event) string {
	var all []string
	for _, e := range events {
		what := fmt.Sprint(e.Seq, " ", e.Type)
		switch b := e.Body.(type) {
		case chat.AgentText:
			what += fmt.Sprintf(" %s %d bytes partial=%t", b.Block, len(b.Text), b.Partial)
		case chat.AgentStatus:
			what += " " + b.Message
		}
		all = append(all, what)
	}
	return strings.Join(all, ", ")
}

// places tells where the texts of connections stand in the whole text, for an error.
func places(texts []string, want string) string {
	var all []string
	for _, text := range texts {
		var parts []string
		for text != "" {
			at, n := 0, 0
			for begin := range want { // the longest beginning of text
				if same := commonPrefix(want[begin:], text); same > n {
					at, n = begin, same
				}
			}
			if n == 0 {
				parts = append(parts, fmt.Sprintf("%q", dialecttest.Clip(text)))
				break
			}
			parts, text = append(parts, fmt.Sprintf("%d-%d", at, at+n)), text[n:]
		}
		all = append(all, strings.Join(parts, "+"))
	}
	return strings.Join(all, ", ")
}

func commonPrefix(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// print prints what the clients of each dialect have done.
func (t *talks) print() {
	fmt.Printf("%-9s %13s %8s %7s %7s %5s %13s %8s\n", "dialect", "conversations", "messages", "resumes", "answers", "stops", "longest pause", "problems")
	for _, d := range dialecttest.Dialects {
		n := t.counts[d]
		fmt.Printf("%-9s %13d %8d %7d %7d %5d %11.1f s %8d\n", d, n.conversations, n.messages, n.resumes, n.answers, n.stops, n.pause.Seconds(), n.problems)
	}
	fmt.Printf("bytes that NeMo clients got twice: %d\n", t.counts["nemo"].repeated)
}
