package model

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// page is the number of messages to read from the log at once.
const page = 200

// messages reads the messages for the model, oldest first: from the last summary on,
// or as far back as room tokens require.
func (r *round) messages(ctx context.Context, room int) ([]llm.Message, error) {
	q := llm.Query{Options: llm.Options{Workstream: r.turn.Workstream, Brief: true}, Limit: page, Desc: true}
	var newest []llm.Message
	for tokens := 0; ; {
		p, err := llm.List(ctx, r.turn, q)
		if err != nil {
			return nil, err
		}
		newest = append(newest, p.Messages...)
		tokens += llm.Tokens(p.Messages)
		// Read twice the room, so that there are messages to summarise.
		if !p.More || tokens > 2*room || slices.ContainsFunc(p.Messages, isSummary) {
			break
		}
		q.Before = p.Messages[len(p.Messages)-1].ID
	}
	slices.Reverse(newest)
	return fromSummary(r.withoutWaiting(newest)), nil
}

func isSummary(m llm.Message) bool { return m.Role == llm.Summary }

// withoutWaiting removes the messages at the end that wait for a later turn.
func (r *round) withoutWaiting(ms []llm.Message) []llm.Message {
	run := llm.RunID(r.turn.Ref().Turn)
	for len(ms) > 0 {
		m := &ms[len(ms)-1]
		seq, ok := llm.SeqOf(m.ID)
		if !ok || m.Role != llm.User || m.RunID == run || seq <= r.turn.Trigger.Seq {
			break
		}
		ms = ms[:len(ms)-1]
	}
	return ms
}

// through is the prefix of a summary's OTID, before the id of the last message that
// the summary covers. The messages between that one and the summary are still sent to
// the model.
const through = "through:"

// fromSummary moves the last summary in front of the messages that it does not cover
// and drops the messages that it covers.
func fromSummary(ms []llm.Message) []llm.Message {
	at := len(ms) - 1
	for at >= 0 && !isSummary(ms[at]) {
		at--
	}
	if at < 0 {
		return ms
	}
	summary := ms[at]
	out := []llm.Message{summary}
	last, named := llm.SeqOf(strings.TrimPrefix(summary.OTID, through))
	if named {
		var asked *llm.Message // the last user message, which is kept even if the summary covers it
		for i := range ms[:at] {
			m := &ms[i]
			seq, ok := llm.SeqOf(m.ID)
			switch {
			case isSummary(*m):
			case ok && seq > last:
				if m.Role == llm.User {
					asked = nil
				}
				if asked != nil {
					out, asked = append(out, *asked), nil
				}
				out = append(out, *m)
			case m.Role == llm.User:
				asked = m
			}
		}
		if asked != nil && !slices.ContainsFunc(out[1:], func(m llm.Message) bool { return m.Role == llm.User }) {
			out = slices.Insert(out, 1, *asked)
		}
	}
	return append(out, ms[at+1:]...)
}

// pictures returns the messages with the data of images that are files of the session.
// It does not change its argument.
func (r *round) pictures(ctx context.Context, ms []llm.Message) []llm.Message {
	if r.opt.Files == nil {
		return ms
	}
	var out []llm.Message
	left := maxPicture
	for i := len(ms) - 1; i >= 0; i-- { // newest first, up to maxPicture bytes
		for j, p := range ms[i].Content {
			image, ok := p.(*llm.Image)
			if !ok || image.Source.Type != llm.SourceFile || image.Source.Data != "" {
				continue
			}
			data, mediaType, err := r.opt.Files(ctx, r.turn.Ref().Session, image.Source.FileID)
			if err != nil || len(data) > left {
				continue // the conversion replaces the image with a note
			}
			left -= len(data)
			if out == nil {
				out = slices.Clone(ms)
			}
			copied := *image
			copied.Source.Data = base64.StdEncoding.EncodeToString(data)
			if copied.Source.MediaType == "" {
				copied.Source.MediaType = mediaType
			}
			out[i].Content = slices.Clone(out[i].Content)
			out[i].Content[j] = &copied
		}
	}
	if out == nil {
		return ms
	}
	return out
}

// fit returns the conversation shortened to the model's window. It first summarises
// the messages that do not fit and stores the summary in the log.
func (r *round) fit(ctx context.Context, room int) ([]llm.Message, error) {
	var system []llm.Message
	if r.opt.Instructions != "" {
		system = append(system, llm.Message{Role: llm.System, Content: llm.Texts(r.opt.Instructions)})
	}
	if said, ok := r.turn.Trigger.Body.(chat.UserMessage); ok && said.System() != "" {
		system = append(system, llm.Message{Role: llm.System, Content: llm.Texts(said.System())})
	}
	if extra := r.assignment(); extra != "" {
		system = append(system, llm.Message{Role: llm.System, Content: llm.Texts(extra)})
	}
	for again := false; ; again = true {
		ms, err := r.messages(ctx, room)
		if err != nil {
			return nil, err
		}
		if due := r.toSummarise(ms); len(due) > 1 && !again {
			if r.summarise(ctx, due, ms, room, "requested") {
				continue
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		all := slices.Concat(system, ms)
		fitted, dropped, err := llm.Fit(all, room)
		if err != nil {
			return nil, &Failure{Code: agent.CodeOverflow, Msg: chat.Public(err).Msg, err: err}
		}
		if len(dropped) == 0 || again {
			return fitted, nil
		}
		if !r.summarise(ctx, dropped, ms, room, "context_window") {
			return fitted, ctx.Err()
		}
	}
}

// toSummarise returns the messages to summarise because a person requested it: all messages of
// earlier turns, or none if they were summarised after the request.
func (r *round) toSummarise(ms []llm.Message) (due []llm.Message) {
	if r.compact == 0 {
		return nil
	}
	for _, m := range ms {
		seq, ok := llm.SeqOf(m.ID)
		switch {
		case isSummary(m) && seq > r.compact:
			return nil
		case !isSummary(m) && ok && seq < r.started.Seq && seq != r.turn.Trigger.Seq:
			due = append(due, m)
		}
	}
	return due
}

// summaryPrompt is the system prompt of a summary request.
const summaryPrompt = "You keep the memory of a conversation between a person and an assistant that uses tools. " +
	"Summarise what follows, so that the assistant can go on from your summary alone: what the person wants, what was decided, " +
	"facts, names, numbers, paths and results that matter, what was done and what is still open. " +
	"Keep what an earlier summary says where it still matters. Write plain text, as short as you can without losing any of that."

// summarise stores a summary of the dropped messages in the log, with the reason. It
// reports whether it succeeded; if not, the conversation continues without a summary.
func (r *round) summarise(ctx context.Context, dropped, all []llm.Message, room int, why string) bool {
	r.sums++
	part := r.turn.Part(fmt.Sprintf("s%sa%dx%d", r.nextStep(), r.turn.Ref().Attempt, r.sums))
	word := "The conversation has become long; its beginning is being summarised."
	if why == "requested" {
		word = "The conversation so far is being summarised, as somebody asked."
	}
	_ = r.reports().Status(ctx, word, "summarizing") // a failure is reported by the next call
	if len(all) > 0 && isSummary(all[0]) {
		dropped = slices.Concat(all[:1], dropped)
	}
	text := llm.Plain(dropped)
	limit := llm.Request{MaxText: room * 2} // in characters: half of the room at about four characters per token
	request := &llm.Request{Model: r.model(), MaxTokens: max(256, min(2048, room/4)), Effort: r.effort(), Messages: []llm.Message{
		{Role: llm.System, Content: llm.Texts(summaryPrompt)},
		{Role: llm.User, Content: llm.Texts(limit.Cut(text))},
	}}
	answer, err := r.retry(ctx, func(ctx context.Context, key string, alive func()) (*llm.Answer, error) {
		return r.endpoint.ask(ctx, key, request, alive, func(llm.Delta) error { return nil })
	})
	if err != nil {
		if ctx.Err() == nil {
			_, _ = r.reports().Append(ctx, chat.AgentError{ // a failure is reported by the next call
				Message:     "The beginning of the conversation could not be summarised and is left out: " + r.errorText(err),
				Recoverable: true, Code: agent.CodeNoSummary,
			})
		}
		return false
	}
	last := dropped[len(dropped)-1].ID
	for i := range dropped { // find the highest sequence; dropped is not contiguous when Fit keeps the last user message
		if a, ok := llm.SeqOf(dropped[i].ID); ok {
			if b, _ := llm.SeqOf(last); a > b {
				last = dropped[i].ID
			}
		}
	}
	m := llm.NewSummary(answer.Message.PlainText(), &llm.Compaction{
		Trigger: why, ContextWindow: r.opt.Window, MessagesBefore: len(all), MessagesAfter: len(all) - len(dropped) + 1,
		TokensBefore: llm.Tokens(all),
	}, r.started.At.Time())
	m.OTID = through + last
	_, err = part.AppendAll(ctx, chat.Unknown{Name: llm.ImportedType, Payload: m.AppendJSON(nil)}, chat.AgentUsage{Model: r.model(), Usage: answer.Usage})
	return err == nil
}

var _ llm.Log = (*agent.Turn)(nil)
