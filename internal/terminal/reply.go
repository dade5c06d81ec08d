package terminal

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// Reply prints the answer to one message while it is written. A Reply is used once, by one goroutine.
type Reply struct {
	Out   io.Writer
	Asked func(ctx context.Context, p chat.Prompt) error // called with every prompt of the turn, and of one that the message waits for; may be nil
	Note  func(text string)                              // called with notifications and artifacts, which may have several lines; may be nil

	cl      *client.Client
	turn    chat.TurnID
	printed map[chat.BlockID]int
	current chat.BlockID // the block at the end of what was printed
	any     bool
	line    bool // the last character printed was a line break
}

// Wait follows the session from the message on, until the turn that answers it has ended. The error says why a turn failed
// or was stopped.
func (r *Reply) Wait(ctx context.Context, cl *client.Client, message chat.Event) error {
	r.cl, r.printed = cl, map[chat.BlockID]int{}
	defer r.breakLine()
	if r.Asked != nil {
		open, _, err := openPrompts(ctx, cl, message.Session)
		if err != nil {
			return err
		}
		for _, p := range open {
			if p.Seq < message.Seq {
				if err := r.Asked(ctx, p); err != nil {
					return err
				}
			}
		}
	}
	after := chat.Cursor{Seq: message.Seq}
	for f, err := range cl.Watch(ctx, message.Session, client.WatchOptions{After: after.String()}) {
		if err != nil {
			return err
		}
		switch {
		case f.Preview != nil:
			r.preview(f.Preview)
		case f.Event != nil:
			if over, err := r.event(ctx, message.Seq, f.Event); over || err != nil {
				return err
			}
		}
	}
	return nil
}

// openPrompts returns the open prompts of the main line, and the session as it stands.
func openPrompts(ctx context.Context, cl *client.Client, id chat.SessionID) ([]chat.Prompt, chat.Snapshot, error) {
	s, err := cl.Snapshot(ctx, id, 1)
	return slices.DeleteFunc(s.State.Prompts, func(p chat.Prompt) bool { return p.Workstream != "" || p.Turn == "" }), s, err
}

func (r *Reply) preview(p *chat.Preview) {
	if r.turn == "" || p.Turn != r.turn || p.Kind != chat.TextBlock || p.Workstream != "" {
		return
	}
	r.print(p.Block, p.Text)
}

func (r *Reply) print(block chat.BlockID, text string) {
	if text = Sanitize(text); text == "" {
		return
	}
	if r.current != block {
		r.breakLine()
	}
	io.WriteString(r.Out, text)
	r.any, r.current, r.line = true, block, strings.HasSuffix(text, "\n")
	r.printed[block] += len(text)
}

// note prints a notification or an artifact on lines of its own.
func (r *Reply) note(lines ...string) {
	if r.Note == nil {
		return
	}
	r.breakLine()
	r.Note(strings.Join(lines, "\n"))
}

// plainWidth is the width of tables and charts in plain output.
const plainWidth = 100

// artifact prints an artifact without colours. A file that cannot be read is left out; its name is printed.
func (r *Reply) artifact(ctx context.Context, session chat.SessionID, a *chat.AgentArtifact) {
	if r.Note == nil {
		return
	}
	var data []byte
	if inFile(a) {
		data, _ = readArtifact(ctx, r.cl, session, a.Path)
	}
	lines := artifactLines(a, data, plainWidth)
	for i, l := range lines {
		lines[i] = strings.TrimRight(ansi.Strip(l), " ")
	}
	r.note(lines...)
}

// breakLine ends an unfinished line.
func (r *Reply) breakLine() {
	if r.any && !r.line {
		fmt.Fprintln(r.Out)
		r.line = true
	}
}

func (r *Reply) event(ctx context.Context, message chat.Seq, e *chat.Event) (over bool, err error) {
	switch b := e.Body.(type) {
	case chat.TurnStarted:
		if b.Trigger == message {
			r.turn = b.TurnID
		}
	case chat.TurnInput:
		for _, seq := range b.Sequences {
			if seq == message {
				r.turn = e.Turn
			}
		}
	case chat.UserMessageWithdrawn:
		if b.Sequence == message {
			return true, fmt.Errorf("the message was withdrawn before it was answered")
		}
	case chat.AgentText:
		if r.turn != "" && e.Turn == r.turn && e.Workstream == "" {
			block := b.Block
			if block == "" {
				block = chat.BlockID(e.ID)
			}
			if n := r.printed[block]; n <= len(Sanitize(b.Text)) {
				r.print(block, Sanitize(b.Text)[n:])
			}
		}
	case chat.AgentArtifact:
		if r.turn != "" && e.Turn == r.turn {
			r.artifact(ctx, e.Session, &b)
		}
	case chat.AgentInputRequest, chat.AgentApprovalRequest, chat.AgentPermissionRequest:
		p, waits := chat.AsPrompt(e)
		if r.turn != "" && e.Turn != r.turn || e.Workstream != "" && r.turn == "" {
			break
		}
		if in, ok := e.Body.(chat.AgentInputRequest); ok && !waits && r.turn != "" {
			r.note("🔔 " + OneLine(in.Text))
		}
		if waits && r.Asked != nil {
			r.breakLine()
			return false, r.Asked(ctx, p)
		}
	case chat.TurnCompleted:
		if b.TurnID != r.turn {
			return false, nil
		}
		switch b.Outcome {
		case chat.Done:
			return true, nil
		case chat.Stopped:
			return true, fmt.Errorf("the turn was stopped")
		}
		return true, fmt.Errorf("the turn %s: %s", b.Outcome, cmp.Or(b.Error, "no reason given"))
	}
	return false, nil
}
