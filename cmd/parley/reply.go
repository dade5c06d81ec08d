package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// reply prints the answer to a message as it is written, and returns when the
// turn that answers it is over.
type reply struct {
	out    io.Writer
	asked  func(ctx context.Context, p chat.Prompt) error // a question came up
	closed func(requestID string)                         // a question is over
	note   func(text string)                              // something that is no text: a notice, a file

	turn    chat.TurnID
	printed map[chat.BlockID]int
	current chat.BlockID // the block at the end of what was printed
	any     bool
	line    bool // the last character printed was a line break
}

// wait follows the session from the message on.
func (r *reply) wait(ctx context.Context, cl *client.Client, message chat.Event) error {
	r.printed = map[chat.BlockID]int{}
	defer r.breakLine()
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

func (r *reply) preview(p *chat.Preview) {
	if r.turn == "" || p.Turn != r.turn || p.Kind != chat.TextBlock || p.Workstream != "" {
		return
	}
	r.print(p.Block, p.Text)
}

func (r *reply) print(block chat.BlockID, text string) {
	if text = plain(text); text == "" {
		return
	}
	if r.current != block {
		r.breakLine()
	}
	io.WriteString(r.out, text)
	r.any, r.current, r.line = true, block, strings.HasSuffix(text, "\n")
	r.printed[block] += len(text)
}

// tell mentions something that is no text, on a line of its own.
func (r *reply) tell(text string) {
	if r.note == nil {
		return
	}
	r.breakLine()
	r.note(oneLine(text))
}

// breakLine ends a line that was begun.
func (r *reply) breakLine() {
	if r.any && !r.line {
		fmt.Fprintln(r.out)
		r.line = true
	}
}

func (r *reply) event(ctx context.Context, message chat.Seq, e *chat.Event) (over bool, err error) {
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
			if n := r.printed[block]; n <= len(plain(b.Text)) {
				r.print(block, plain(b.Text)[n:])
			}
		}
	case chat.AgentArtifact:
		if r.turn != "" && e.Turn == r.turn {
			r.tell("◆ " + artifactText(b))
		}
	case chat.AgentInputRequest, chat.AgentApprovalRequest, chat.AgentPermissionRequest:
		p, waits := chat.AsPrompt(e)
		if r.turn == "" || e.Turn != r.turn {
			break
		}
		if in, ok := e.Body.(chat.AgentInputRequest); ok && !waits {
			r.tell("🔔 " + in.Text)
		}
		if waits && r.asked != nil {
			r.breakLine()
			return false, r.asked(ctx, p)
		}
	case chat.UserInputResponse, chat.UserApprovalResponse, chat.UserPermissionResponse, chat.PromptClosed:
		if r.closed != nil {
			r.closed(chat.AnswerOf(e.Body))
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
		return true, fmt.Errorf("the turn %s: %s", b.Outcome, firstOf(b.Error, "no reason given"))
	}
	return false, nil
}
