package letta

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// stream answers with the run as Server-Sent Events. The run goes on when the client disconnects.
func (f *follower) stream(w http.ResponseWriter) error {
	return wire.ServeSSE(w, f.Request, wire.SSEOptions{}, f.opt.Conns, f.serve)
}

func (f *follower) serve(ctx context.Context, s *wire.Stream) error {
	// The context of the HTTP request may end before the stream does.
	f.request = &request{Dialect: f.Dialect, ctx: ctx, caller: f.caller, records: f.records}
	ping := func() error { return s.Write(ctx, f.ping()) }
	// Clients have a timeout for the first bytes, and need the run's id to resume.
	if f.pings {
		if err := ping(); err != nil {
			return err
		}
	} else if err := s.Flush(ctx); err != nil {
		return err
	}
	var buf []byte
	err := f.followAll(func(items []stream.Item) (err error) {
		buf = buf[:0]
		for i := range items {
			if buf, err = stream.AppendFrame(buf, &items[i]); err != nil {
				return err
			}
		}
		return s.Write(ctx, buf)
	}, ping)
	switch {
	case err == nil:
		buf = buf[:0]
		for _, frame := range f.endFrames() {
			if buf, err = stream.AppendFrame(buf, frame); err != nil {
				return err
			}
		}
		return s.Write(ctx, append(buf, "data: [DONE]\n\n"...))
	case errors.Is(context.Cause(ctx), wire.ErrPeerGone):
		return nil
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), wire.ErrShutdown) && wire.Ended(ctx) == nil:
		return err
	}
	if chat.CodeOf(err) == chat.Internal && ctx.Err() == nil {
		f.log.ErrorContext(ctx, "a stream failed", "session", f.conv.session, "err", err)
	}
	if buf, err = stream.AppendFrame(buf[:0], f.broken(ctx, err)); err != nil {
		return err
	}
	return s.Write(context.WithoutCancel(ctx), buf)
}

// followAll follows the run, and then the run of a message that was sent with an answer. ping is called when the
// followed run is known and after each heartbeat of silence.
func (f *follower) followAll(show func([]stream.Item) error, ping func() error) error {
	for {
		if f.run == nil {
			if err := f.await(ping); err != nil {
				return err
			}
			if f.pings && ping != nil {
				if err := ping(); err != nil {
					return err
				}
			}
		}
		if err := f.follow(show, ping); err != nil {
			return err
		}
		if more, err := f.followNext(); !more || err != nil {
			return err
		}
	}
}

// ping is a frame with the run's id, or a comment when the client wants no pings.
func (f *follower) ping() []byte {
	if f.pings {
		b, err := stream.AppendFrame(nil, &stream.Item{
			Kind: stream.KindPing, ID: "ping-" + newUUID(), Date: time.Now(), Run: f.runID(), Seq: f.position(),
		})
		if err == nil {
			return b
		}
	}
	return wire.AppendSSEComment(nil, "ping")
}

// endFrames are the last frames of a stream that the client does not have.
func (f *follower) endFrames() (frames []any) {
	end, id := f.progress.End, f.runID()
	if end.At > f.after {
		frames = append(frames, stream.Stop{Kind: stream.KindStop, Reason: end.Reason, Seq: int64(end.At), Run: id})
	}
	if at := end.At + 1; at > f.after && end.Failed != "" {
		frames = append(frames, stream.Failure{Kind: stream.KindError, Run: id, Type: "internal_error", Message: "The run failed.", Detail: end.Failed, Seq: int64(at)})
	} else if at > f.after {
		u := f.usage()
		u.Seq, u.Run = int64(at), id
		frames = append(frames, u)
	}
	return frames
}

func (f *follower) usage() stream.Usage {
	return stream.NewUsage(f.progress.Usage.Plus(f.earlier.Usage), f.progress.Steps+f.earlier.Steps, append(f.earlierID, f.runID()))
}

// broken is the last frame of a stream that ends before its run.
func (f *follower) broken(ctx context.Context, err error) stream.Failure {
	kind, detail := "stream_incomplete", chat.Public(err).Msg
	message := "The stream ends before the run. Come back with the run's id and starting_after set to the last seq_id."
	switch code := chat.CodeOf(err); {
	case wire.Ended(ctx) != nil:
		kind, detail = "authentication_error", chat.Public(wire.Ended(ctx)).Msg
		message = "The stream ends because its credential has ended; the run goes on. Sign in again and come back with the run's id and starting_after set to the last seq_id."
	case code == chat.Gone:
		kind, message = "stream_task_cancelled", "The conversation was deleted, and its run with it; there is nothing to come back to."
	case code == chat.Unavailable || errors.Is(err, wire.ErrShutdown):
		detail = "The server ends this connection; the run goes on."
	}
	return stream.Failure{Kind: stream.KindError, Run: f.runID(), Type: kind, Message: message, Detail: detail, Seq: int64(f.position())}
}

// whole answers when the run has ended or waits for an answer.
func (f *follower) whole(w http.ResponseWriter) error {
	a := stream.Answer{Messages: []json.RawMessage{}}
	err := f.followAll(func(items []stream.Item) error {
		for i := range items {
			b, err := json.Marshal(&items[i])
			if err != nil {
				return err
			}
			a.Messages = append(a.Messages, b)
		}
		return nil
	}, nil)
	if err != nil {
		if f.ctx.Err() != nil {
			return chat.Errorf(chat.Unavailable, "the client did not wait for the answer; the run goes on").Because(err)
		}
		return err
	}
	if reason := f.progress.End.Failed; reason != "" {
		f.sendFailed(w, f.run.ID, reason)
		return nil
	}
	a.Stop, a.Usage = stream.Stop{Kind: stream.KindStop, Reason: f.progress.End.Reason}, f.usage()
	f.http.Send(w, f.Request, http.StatusOK, a)
	return nil
}

func newUUID() string {
	var id chat.ID
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.UUID()
}
