package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// play is one recorded turn on its way into a session.
type play struct {
	*fake
	t     *agent.Turn
	turn  *recordedTurn
	at    chat.At           // how far the recording is
	names map[string]string // of workstreams: recorded to launched
}

// event plays one event at its time.
func (p *play) event(ctx context.Context, e *chat.Event) error {
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
		return p.say(ctx, b)
	case chat.AgentToolResult:
		b.CallID = p.call(b.CallID)
		return p.say(ctx, b)
	case chat.AgentToolError:
		b.CallID = p.call(b.CallID)
		return p.say(ctx, b)
	case chat.AgentToolProgress:
		b.CallID = p.call(b.CallID)
		return p.say(ctx, b)
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
	case chat.WorkstreamCompleted:
		return p.await(ctx, b.ID)
	case chat.WorkstreamFailed:
		return p.await(ctx, b.ID)
	case chat.WorkstreamTimeout:
		return p.await(ctx, b.ID)
	case chat.WorkstreamCanceled:
		return p.await(ctx, b.ID)
	case chat.AgentTrace, chat.WorkstreamProgress, chat.WorkstreamMessage, chat.WorkstreamSteered, chat.WorkstreamCanceling, chat.WorkstreamWarning:
		return nil // the server's own, or of that day
	}
	return p.say(ctx, e.Body)
}

// say puts a fact into the session.
func (p *play) say(ctx context.Context, b chat.Body) error {
	_, err := p.t.Append(ctx, b)
	return err
}

// call makes the recorded id of a call one of this turn.
func (p *play) call(id string) string {
	if id == "" {
		return ""
	}
	return strings.TrimPrefix(string(p.t.ID), chat.TurnPrefix) + "-" + id
}

// asked goes on behind a question. How it was answered then, and is now, does
// not matter to a recording; but the time that people took is not played.
func (p *play) asked(id string, err error) error {
	if at, ok := p.turn.answers[id]; ok {
		p.at = max(p.at, at)
	}
	if errors.Is(err, agent.ErrExpired) || errors.Is(err, agent.ErrWithdrawn) {
		return nil
	}
	return err
}

// write streams a text so that it is finished at its time.
func (p *play) write(ctx context.Context, w *agent.Writer, text string, until chat.At) error {
	const step = 25 * time.Millisecond
	gap := p.gap(until)
	pieces := min(max(int(gap/step), 1), max(len(text)/3, 1))
	for i, from := 0, 0; i < pieces; i++ {
		to := len(text) * (i + 1) / pieces
		if !w.Behind() {
			if err := sleep(ctx, gap/time.Duration(pieces)); err != nil {
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

// pause waits until the recording is at a time.
func (p *play) pause(ctx context.Context, until chat.At) error {
	gap := p.gap(until)
	p.at = max(p.at, until)
	if p.t.Behind() {
		return nil
	}
	return sleep(ctx, gap)
}

// gap is how long it takes to come to a time of the recording.
func (p *play) gap(until chat.At) time.Duration {
	if p.speed == 0 || until <= p.at {
		return 0
	}
	return min(time.Duration(float64(until.Time().Sub(p.at.Time()))/p.speed), p.longest)
}

// artifact publishes what was made; its file comes along when it is to be had.
func (p *play) artifact(ctx context.Context, a chat.AgentArtifact) error {
	if a.Path == "" || p.source == nil || p.t.Behind() {
		return p.say(ctx, a)
	}
	body, _, err := p.source.Download(ctx, p.rec.session, a.Path)
	if err != nil {
		return p.say(ctx, a) // it was removed since; what is known of it is shown
	}
	defer body.Close()
	if _, err := p.cl.Upload(ctx, p.t.Session, a.Path, body, client.UploadOptions{MediaType: a.MediaType}); err != nil {
		return err
	}
	return p.say(ctx, a)
}

// launch begins a line of work that plays the recorded one.
func (p *play) launch(ctx context.Context, b chat.WorkstreamLaunched) error {
	l := chat.Launch{
		ID: b.ID, Name: b.Name, Instruction: b.Task, MergeChildArtifacts: b.MergeArtifacts, Model: b.Model, DeadlineSeconds: b.DeadlineSeconds,
		Interactive: b.Interactive, Agent: p.t.Agent, Context: []byte(`{"replay":` + strconv.Quote(b.ID) + `}`),
	}
	status, err := p.t.Launch(ctx, l)
	if chat.CodeOf(err) == chat.Conflict {
		// The session has played it before.
		l.ID += "-" + strconv.FormatUint(uint64(p.t.Trigger.Seq), 10)
		status, err = p.t.Launch(ctx, l)
	}
	p.names[b.ID] = status.ID
	return err
}

// await waits for the end of a line of work that this turn launched.
func (p *play) await(ctx context.Context, id string) error {
	name, ok := p.names[id]
	if !ok {
		return nil
	}
	_, err := p.t.Await(ctx, name)
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
