// Package demo is an agent without a model for first steps and for tests. Its answers are always the same. A message
// that begins with a slash is a command; /help lists them. The question what it can do gets an answer. All other messages
// are answered "You said: …".
//
// A turn can be interrupted at any point: when Answer is called again for the same turn, it continues there.
package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/sleep"
)

// Name is the agent's name.
const Name = "demo"

// Info describes the agent.
var Info = agent.Info{
	Name: Name, Kind: "builtin", Description: "Answers without a model; type /help for what it can do.",
	Starters: []string{"/tour", "/stream 200 40", "/ask radio", "/approve deploy {\"env\":\"prod\"}", "/plan 4 4", "/work 3 10"},
}

// Agent is the demo agent.
type Agent struct{}

// command answers one kind of message.
type command struct {
	name  string
	usage string
	says  string
	run   func(ctx context.Context, t *agent.Turn, args string) error
}

var commands []command

func init() {
	commands = []command{
		{"/echo", "TEXT", "streams TEXT back in small pieces, then the whole", echo},
		{"/stream", "N [RATE]", "N words tok1 … tokN, RATE per second (0: as fast as it can)", stream},
		{"/think", "TEXT", "thinks TEXT, then says that it is done", think},
		{"/tool", "NAME JSON", "calls a tool that gives JSON back", tool},
		{"/tools", "NAME JSON; NAME JSON …", "calls several tools in one step; NAME! fails, NAME? is asked for first", tools},
		{"/toolfail", "NAME", "calls a tool that fails", toolFail},
		{"/ask", "TYPE [timeout=S]", "asks for input: text, binary_choice, radio, checkbox, dropdown, notification, oauth_consent", ask},
		{"/approve", "NAME JSON [timeout=S]", "asks before it calls a tool", approve},
		{"/permission", "SCOPE…", "asks for permission", permission},
		{"/plan", "N [SECONDS]", "a plan of N tasks that advance to done", plan},
		{"/artifact", "table|chart|image|file|html", "makes one artifact", artifact},
		{"/work", "N [SECONDS] [deadline=S]", "N parallel workstreams w1 … wN, then a summary", work},
		{"/usage", "IN OUT", "reports token usage", usage},
		{"/fail", "MESSAGE", "the turn fails with MESSAGE", fail},
		{"/sleep", "S", "is silent for S seconds, then says so", sleepSeconds},
		{"/tour", "", "a bit of everything", tour},
		{"/help", "", "this list", help},
	}
}

// Commands lists the commands.
func (Agent) Commands() (list []chat.AgentCommand) {
	for _, c := range commands {
		list = append(list, chat.AgentCommand{Name: c.name, Description: c.says, Input: c.usage})
	}
	return list
}

// Answer answers one message.
func (Agent) Answer(ctx context.Context, t *agent.Turn) error {
	if j, ok := assigned(t); ok {
		return workPart(ctx, t, j)
	}
	if e, ok := errandOf(t); ok {
		return e.run(ctx, t)
	}
	if chat.ChildOf(t.Trigger.Body) != "" {
		return answerNews(ctx, t)
	}
	text := t.Text()
	name, args := text, ""
	if i := strings.IndexAny(text, " \t\r\n"); i > 0 {
		name, args = text[:i], text[i+1:]
	}
	for _, c := range commands {
		if c.name == name {
			return c.run(ctx, t, strings.TrimSpace(args))
		}
	}
	if strings.HasPrefix(text, "/") && !strings.Contains(name[1:], "/") && len(name) > 1 {
		return say(ctx, t, fmt.Sprintf("I do not know the command %s. Type /help for those I know.", name))
	}
	if asksWhatItCanDo(text) {
		return say(ctx, t, "I am a demo agent without a model: I show how people and agents work together here. Type `/tour` for a bit of everything, or `/help` for my commands. Everything else I only repeat.")
	}
	return say(ctx, t, "You said: "+text)
}

// asksWhatItCanDo reports whether a message is one of the first questions that people ask.
func asksWhatItCanDo(text string) bool {
	asked := strings.ToLower(strings.TrimRight(text, " ?!."))
	return asked == "help" || strings.HasSuffix(asked, "what can you do") || strings.HasSuffix(asked, "who are you")
}

func help(ctx context.Context, t *agent.Turn, _ string) error {
	var b strings.Builder
	b.WriteString("I answer without a model. Commands:\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "\n- `%s` %s", strings.TrimSpace(c.name+" "+c.usage), c.says)
	}
	return say(ctx, t, b.String())
}

// say streams a text in pieces of a few words.
func say(ctx context.Context, t *agent.Turn, text string) error {
	return write(ctx, t.Stream(true), text, 12, 0)
}

// write streams a text in pieces of at least size bytes that end between characters, with a pause before each piece.
// There is no pause before pieces that were shown before a restart.
func write(ctx context.Context, w *agent.Writer, text string, size int, gap time.Duration) error {
	for text != "" {
		end := min(size, len(text))
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end++
		}
		if gap > 0 && !w.Replaying() {
			if err := sleep.For(ctx, gap); err != nil {
				return err
			}
		}
		if err := w.Write(ctx, text[:end]); err != nil {
			return err
		}
		text = text[end:]
	}
	return w.Close(ctx)
}

func echo(ctx context.Context, t *agent.Turn, text string) error {
	if text == "" {
		return say(ctx, t, "Usage: /echo TEXT")
	}
	return write(ctx, t.Stream(true), text, 4, 0)
}

func stream(ctx context.Context, t *agent.Turn, args string) error {
	var n int
	var rate float64
	if !numbers(args, &n, &rate) || n < 1 || n > 1_000_000 || rate < 0 {
		return say(ctx, t, "Usage: /stream N [RATE], with N from 1 to 1000000.")
	}
	return words(ctx, t, n, rate)
}

// numbers reads a count and an optional number after it.
func numbers(args string, n *int, x *float64) bool {
	words := strings.Fields(args)
	if len(words) < 1 || len(words) > 2 {
		return false
	}
	var err error
	if *n, err = strconv.Atoi(words[0]); err == nil && len(words) == 2 {
		*x, err = strconv.ParseFloat(words[1], 64)
	}
	return err == nil && !math.IsNaN(*x) && !math.IsInf(*x, 0)
}

// words streams n numbered words. Each word has a due time, so that a slow write does not delay all later words.
func words(ctx context.Context, t *agent.Turn, n int, rate float64) error {
	w := t.Stream(true)
	var begin time.Time
	var first int
	for i := 1; i <= n; i++ {
		word := fmt.Sprintf("tok%d", i)
		if i < n {
			word += " "
		}
		if rate > 0 && !w.Replaying() {
			if begin.IsZero() {
				begin, first = time.Now(), i
			}
			due := begin.Add(time.Duration(float64(i-first) / rate * float64(time.Second)))
			if err := sleep.For(ctx, time.Until(due)); err != nil {
				return err
			}
		}
		if err := w.Write(ctx, word); err != nil {
			return err
		}
	}
	return w.Close(ctx)
}

func think(ctx context.Context, t *agent.Turn, text string) error {
	if err := write(ctx, t.Think(), text, 8, 0); err != nil {
		return err
	}
	return say(ctx, t, "Done thinking.")
}

func usage(ctx context.Context, t *agent.Turn, args string) error {
	var in, out int64
	if _, err := fmt.Sscan(args, &in, &out); err != nil || in < 0 || out < 0 {
		return say(ctx, t, "Usage: /usage IN OUT, two counts of tokens.")
	}
	if err := t.Usage(ctx, chat.AgentUsage{Model: Name, Usage: chat.Usage{InputTokens: in, OutputTokens: out}}); err != nil {
		return err
	}
	return say(ctx, t, fmt.Sprintf("Used %d tokens in and %d out.", in, out))
}

func fail(_ context.Context, _ *agent.Turn, message string) error {
	if message == "" {
		message = "failed on request"
	}
	return errors.New(message)
}

func sleepSeconds(ctx context.Context, t *agent.Turn, args string) error {
	s, err := strconv.ParseFloat(args, 64)
	if err != nil || !(s >= 0 && s <= 86400) { // nor NaN
		return say(ctx, t, "Usage: /sleep S, a number of seconds.")
	}
	// The time counts from the start of the turn, also after a restart.
	started, err := t.Started(ctx)
	if err != nil {
		return err
	}
	if err := sleep.For(ctx, time.Until(started.At.Time().Add(time.Duration(s*float64(time.Second))))); err != nil {
		return err
	}
	return say(ctx, t, "Awake.")
}
