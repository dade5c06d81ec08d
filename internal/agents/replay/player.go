package replay

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/sleep"
)

// player plays one recorded turn into a session.
type player struct {
	*Agent
	t     *agent.Turn
	turn  *turn
	at    chat.At           // the time of the recording that is reached
	names map[string]string // of workstreams: recorded to launched
}

// event plays one event at its time.
func (p *player) event(ctx context.Context, e *chat.Event) error {
	switch b := e.Body.(type) {
	case chat.AgentText:
		return p.write(ctx, p.t.Stream(b.Final), b.Text, e.At)
	case chat.AgentThinking:
		if b.Text == "" {
			return nil
		}
		return p.write(ctx, p.t.Think(), b.Text, e.At)
	}
	if err := p.pause(ctx, e.At); err != nil {
		return err
	}
	switch b := e.Body.(type) {
	case chat.AgentToolCall:
		b.CallID = p.call(b.CallID)
		return p.append(ctx, b)
	case chat.AgentToolResult:
		b.CallID = p.call(b.CallID)
		return p.append(ctx, b)
	case chat.AgentToolError:
		b.CallID = p.call(b.CallID)
		return p.append(ctx, b)
	case chat.AgentToolProgress:
		b.CallID = p.call(b.CallID)
		return p.append(ctx, b)
	case chat.AgentArtifact:
		return p.artifact(ctx, b)
	case chat.AgentInputRequest:
		id := b.RequestID
		b.RequestID, b.Deadline = "", 0
		_, err := p.t.Ask(ctx, b)
		return p.asked(id, err)
	case chat.AgentApprovalRequest:
		id := b.RequestID
		b.RequestID, b.Deadline = "", 0
		calls := make([]chat.ApprovalCall, len(b.Calls))
		for i, c := range b.Calls {
			c.CallID = p.call(c.CallID)
			calls[i] = c
		}
		b.Calls = calls
		_, err := p.t.Approve(ctx, b)
		return p.asked(id, err)
	case chat.AgentPermissionRequest:
		id := b.RequestID
		b.RequestID, b.Deadline = "", 0
		_, err := p.t.Permit(ctx, b)
		return p.asked(id, err)
	case chat.WorkstreamLaunched:
		return p.launch(ctx, b)
	case chat.WorkstreamCompleted, chat.WorkstreamFailed, chat.WorkstreamTimeout, chat.WorkstreamCanceled:
		return p.await(ctx, chat.ChildOf(e.Body))
	case chat.AgentTrace, chat.WorkstreamProgress, chat.WorkstreamMessage, chat.WorkstreamSteered, chat.WorkstreamCanceling, chat.WorkstreamWarning:
		return nil // made by the server, or about people who acted during the recording
	}
	return p.append(ctx, e.Body)
}

// append appends an event to the session.
func (p *player) append(ctx context.Context, b chat.Body) error {
	_, err := p.t.Append(ctx, b)
	return err
}

// call makes an id of this turn from the recorded id of a call.
func (p *player) call(id string) string {
	if id == "" {
		return ""
	}
	return strings.TrimPrefix(string(p.t.ID), chat.TurnPrefix) + "-" + id
}

// asked continues after a prompt, whatever its answer is. The time that the recorded answer took is skipped.
func (p *player) asked(id string, err error) error {
	if at, ok := p.turn.answered[id]; ok {
		p.at = max(p.at, at)
	}
	if errors.Is(err, agent.ErrExpired) || errors.Is(err, agent.ErrWithdrawn) {
		return nil
	}
	return err
}

// write streams a text so that it is complete at the time of its event.
func (p *player) write(ctx context.Context, w *agent.Writer, text string, until chat.At) error {
	const step = 25 * time.Millisecond
	gap := p.gap(until)
	pieces := min(max(int(gap/step), 1), max(len(text)/3, 1))
	for i, from := 0, 0; i < pieces; i++ {
		to := len(text) * (i + 1) / pieces
		if !w.Replaying() {
			if err := sleep.For(ctx, gap/time.Duration(pieces)); err != nil {
				return err
			}
		}
		if err := w.Write(ctx, text[from:to]); err != nil {
			return err
		}
		from = to
	}
	p.at = max(p.at, until)
	return w.Close(ctx)
}

// pause waits until a time of the recording is reached.
func (p *player) pause(ctx context.Context, until chat.At) error {
	gap := p.gap(until)
	p.at = max(p.at, until)
	if p.t.Replaying() {
		return nil
	}
	return sleep.For(ctx, gap)
}

// gap is the time to wait until a time of the recording is reached.
func (p *player) gap(until chat.At) time.Duration {
	if p.opt.Speed == 0 || until <= p.at {
		return 0
	}
	return min(time.Duration(float64(until.Time().Sub(p.at.Time()))/p.opt.Speed), p.opt.MaxPause)
}

// artifact appends an artifact, with its file when the source has it.
func (p *player) artifact(ctx context.Context, a chat.AgentArtifact) error {
	if a.Path == "" || p.opt.Source == nil || p.t.Replaying() {
		return p.append(ctx, a)
	}
	body, _, err := p.opt.Source.Download(ctx, p.rec.Session, a.Path)
	if err != nil {
		return p.append(ctx, a) // the file was removed; the event is played without it
	}
	defer body.Close()
	if _, err := p.opt.Client.Upload(ctx, p.t.Session, a.Path, body, client.UploadOptions{MediaType: a.MediaType}); err != nil {
		return err
	}
	return p.append(ctx, a)
}

// launch starts a workstream that plays the recorded one.
func (p *player) launch(ctx context.Context, b chat.WorkstreamLaunched) error {
	l := chat.Launch{
		ID: b.ID, Name: b.Name, Instruction: b.Task, MergeChildArtifacts: b.MergeArtifacts, Model: b.Model, DeadlineSeconds: b.DeadlineSeconds,
		Interactive: b.Interactive, Agent: p.t.Agent, Context: []byte(`{"replay":` + strconv.Quote(b.ID) + `}`),
	}
	status, err := p.t.Launch(ctx, l)
	if chat.CodeOf(err) == chat.Conflict {
		// The session has a workstream with this id from an earlier turn.
		l.ID += "-" + strconv.FormatUint(uint64(p.t.Trigger.Seq), 10)
		status, err = p.t.Launch(ctx, l)
	}
	p.names[b.ID] = status.ID
	return err
}

// await waits for the end of a workstream that this turn launched.
func (p *player) await(ctx context.Context, id string) error {
	name, ok := p.names[id]
	if !ok {
		return nil
	}
	_, err := p.t.Await(ctx, name)
	return err
}
