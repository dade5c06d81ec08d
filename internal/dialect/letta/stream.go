package letta

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/wire"
)

// stream answers with the run as events. The run does not depend on it: it goes
// on when the client is gone, and the client can come back to it.
func (f *follower) stream(w http.ResponseWriter, r *http.Request) error {
	err := wire.ServeSSE(w, r, wire.SSEOptions{}, f.d.opt.Conns, f.serve)
	if errors.Is(err, wire.ErrShutdown) {
		return chat.Errorf(chat.Unavailable, "the server is shutting down; come back in a moment")
	}
	return err
}

func (f *follower) serve(ctx context.Context, s *wire.Stream) error {
	ping := func() error {
		if !f.pings {
			return s.Write(ctx, wire.AppendSSEComment(nil, "ping"))
		}
		return s.Write(ctx, f.appendPing(nil))
	}
	// Clients wait only so long for the first bytes, and need the run's id to
	// come back.
	if f.pings {
		if err := ping(); err != nil {
			return err
		}
	} else if err := s.Flush(ctx); err != nil {
		return err
	}
	var err error
	var frames []byte
	write := func(items []item) error {
		frames = appendFrames(frames[:0], items)
		return s.Write(ctx, frames)
	}
	for more := true; more && err == nil; {
		if err = f.named(ctx, ping); err == nil {
			err = f.follow(ctx, write, ping)
		}
		if err == nil {
			more, err = f.next(ctx)
		}
	}
	switch {
	case err == nil:
		return s.Write(ctx, f.appendEnd(nil))
	case errors.Is(context.Cause(ctx), wire.ErrPeerGone):
		return nil
	}
	if ended := wire.Ended(ctx); ended != nil {
		return s.Write(context.WithoutCancel(ctx), f.appendError(nil, "authentication_error",
			"The stream ends because its credential has ended; the run goes on. Sign in again and come back with the run's id and starting_after set to the last seq_id.",
			chat.Public(ended).Msg, f.last()))
	}
	// The client is told whether to come back, and from where.
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), wire.ErrShutdown) {
		return err
	}
	if chat.CodeOf(err) == chat.Internal {
		f.d.log.ErrorContext(ctx, "a stream failed", "session", f.place.session, "err", err)
	}
	return s.Write(context.WithoutCancel(ctx), f.appendBroken(nil, err))
}

// appendFrames writes items as events.
func appendFrames(b []byte, items []item) []byte {
	for i := range items {
		b = append(items[i].append(append(b, "data: "...)), '\n', '\n')
	}
	return b
}

// named waits for the run of a message that waits, and tells its id.
func (f *follower) named(ctx context.Context, ping func() error) error {
	if f.run != nil {
		return nil
	}
	if err := f.await(ctx, ping); err != nil || !f.pings {
		return err
	}
	return ping()
}

// runID is the id of the run that is followed, "" while there is none.
func (f *follower) runID() string {
	if f.run == nil {
		return ""
	}
	return f.run.id
}

// last is the position up to which the client has all.
func (f *follower) last() chat.At {
	switch {
	case f.told.last > 0:
		return max(f.after, f.told.last)
	case f.run != nil:
		return max(f.after, f.run.started.At)
	}
	return f.after
}

func (f *follower) appendPing(b []byte) []byte {
	it := item{kind: kindPing, id: "ping-" + newUUID(), date: f.d.opt.Now(), run: f.runID(), seq: f.last()}
	b = it.append(append(b, "data: "...))
	return append(b, '\n', '\n')
}

// appendEnd writes the last events of a stream.
func (f *follower) appendEnd(b []byte) []byte {
	end := f.told.end
	at := end.at
	if at > f.after {
		b = append(f.appendStop(append(b, "data: "...), at), '\n', '\n')
	}
	if at++; at > f.after {
		if end.failed != "" {
			b = f.appendError(b, "internal_error", "The run failed.", end.failed, at)
		} else {
			b = append(f.appendUsage(append(b, "data: "...), at), '\n', '\n')
		}
	}
	return append(b, "data: [DONE]\n\n"...)
}

func (f *follower) appendStop(b []byte, at chat.At) []byte {
	b = append(append(append(b, `{"message_type":"stop_reason","stop_reason":"`...), f.told.end.reason...), '"')
	return append(f.appendPlace(b, at), '}')
}

// appendPlace writes where in the run a frame stands.
func (f *follower) appendPlace(b []byte, at chat.At) []byte {
	if at > 0 {
		b = strconv.AppendInt(append(b, `,"seq_id":`...), int64(at), 10)
		b = appendNullable(append(b, `,"run_id":`...), f.runID())
	}
	return b
}

func (f *follower) appendUsage(b []byte, at chat.At) []byte {
	u := f.told.usage.Plus(f.before.usage)
	b = append(b, `{"message_type":"usage_statistics"`...)
	for _, n := range []struct {
		key   string
		count int64
	}{
		{"prompt_tokens", u.InputTokens}, {"completion_tokens", u.OutputTokens}, {"total_tokens", u.InputTokens + u.OutputTokens},
		{"step_count", int64(f.told.steps + f.before.steps)}, {"cached_input_tokens", u.CacheReadTokens}, {"cache_write_tokens", u.CacheCreationTokens},
		{"reasoning_tokens", u.ReasoningTokens},
	} {
		b = append(append(append(b, `,"`...), n.key...), `":`...)
		b = strconv.AppendInt(b, n.count, 10)
	}
	b = append(b, `,"context_tokens":null,"run_ids":[`...)
	for _, id := range f.runs {
		b = append(appendText(b, id), ',')
	}
	b = appendText(b, f.runID())
	return append(f.appendPlace(append(b, ']'), at), '}')
}

func (f *follower) appendError(b []byte, kind, message, detail string, at chat.At) []byte {
	b = append(b, "event: error\ndata: {\"message_type\":\"error_message\",\"run_id\":"...)
	b = appendText(b, f.runID())
	b = appendText(append(b, `,"error_type":`...), kind)
	b = appendText(append(b, `,"message":`...), message)
	b = appendText(append(b, `,"detail":`...), detail)
	b = strconv.AppendInt(append(b, `,"seq_id":`...), int64(at), 10)
	return append(b, "}\n\n"...)
}

// appendBroken ends a stream whose run goes on without it, or was deleted.
func (f *follower) appendBroken(b []byte, err error) []byte {
	detail := chat.Public(err).Msg
	if chat.CodeOf(err) == chat.Gone {
		return f.appendError(b, "stream_task_cancelled", "The conversation was deleted, and its run with it; there is nothing to come back to.", detail, f.last())
	}
	if code := chat.CodeOf(err); code == chat.Unavailable || errors.Is(err, wire.ErrShutdown) {
		detail = "The server ends this connection; the run goes on."
	}
	return f.appendError(b, "stream_incomplete",
		"The stream ends before the run. Come back with the run's id and starting_after set to the last seq_id.", detail, f.last())
}

// whole answers when the run has ended or waits for a person.
func (f *follower) whole(w http.ResponseWriter, r *http.Request) error {
	body := []byte(`{"messages":[`)
	n := 0
	var err error
	for more := true; more && err == nil; {
		err = f.follow(r.Context(), func(items []item) error {
			for i := range items {
				if n++; n > 1 {
					body = append(body, ',')
				}
				body = items[i].append(body)
			}
			return nil
		}, func() error { return nil })
		if err == nil {
			more, err = f.next(r.Context())
		}
	}
	if err != nil {
		if r.Context().Err() != nil {
			return chat.Errorf(chat.Unavailable, "the answer was not waited for; the run goes on").Because(err)
		}
		return err
	}
	if failed := f.told.end.failed; failed != "" {
		return chat.Errorf(chat.Internal, "The run failed: %s", failed).With(failedDetail, f.run.id)
	}
	body = f.appendStop(append(body, `],"stop_reason":`...), 0)
	body = f.appendUsage(append(body, `,"usage":`...), 0)
	f.d.sendBytes(w, r, http.StatusOK, append(body, `,"logprobs":null,"turns":null}`...))
	return nil
}

func newUUID() string {
	var id chat.ID
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.UUID()
}
