package dialecttest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	x1wire "github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/sleep"
)

// x1 is a client on NATS. It reads events as they are published and requests missing ones from the history.
type x1 struct {
	opt    Options
	nc     *nats.Conn
	events chan *nats.Msg
	last   chat.Seq    // it has all events up to here
	turn   chat.TurnID // the last one that has begun
}

func newX1(opt Options) (*x1, error) {
	x := &x1{opt: opt, events: make(chan *nats.Msg, 100_000)}
	var servers []string
	for _, addr := range opt.NATS {
		servers = append(servers, "nats://"+addr)
	}
	nc, err := nats.Connect(strings.Join(servers, ","), nats.DontRandomize(), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.RetryOnFailedConnect(true), nats.Timeout(3*time.Second),
		nats.ReconnectWait(100*time.Millisecond), nats.PingInterval(time.Second), nats.MaxPingsOutstanding(3), nats.IgnoreDiscoveredServers(),
		nats.ConnectHandler(func(nc *nats.Conn) { opt.Note("connected to %s", nc.ConnectedUrl()) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { opt.Note("disconnected: %v", err) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { opt.Note("cannot connect: %v", err) }),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			opt.Note("connected to %s", nc.ConnectedUrl())
			opt.Resumed()
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { opt.Note("the connection reports: %v", err) }),
		nats.ClosedHandler(func(nc *nats.Conn) { opt.Note("closed for good: %v", nc.LastError()) }))
	if err != nil {
		return nil, err
	}
	x.nc = nc
	_, err = nc.ChanSubscribe(x1wire.Subject(chat.SessionID(opt.Session), x1wire.Events), x.events)
	return x, err
}

func (x *x1) Close() { x.nc.Close() }

func (x *x1) Say(ctx context.Context, key, text string) (Seen, error) {
	if _, err := x.input(ctx, key, "user.message", `{"text":`+Quote(text)+`}`); err != nil {
		return Seen{}, err
	}
	return x.follow(ctx)
}

func (x *x1) Join(ctx context.Context, _ string) (Seen, error) { return x.follow(ctx) }

func (x *x1) Rest(ctx context.Context) (Seen, error) { return x.follow(ctx) }

func (x *x1) Answer(ctx context.Context, p Prompt, key, text string) (Seen, error) {
	if p.Approval {
		text = "approve"
	}
	problem, err := x.input(ctx, key, "user.input_response", `{"request_id":`+Quote(p.Request)+`,"text":`+Quote(text)+`}`)
	late := problem != nil && problem.Refusal == chat.PromptEnded
	if err != nil && !late {
		return Seen{}, err
	}
	seen, err := x.follow(ctx)
	seen.Late = late
	return seen, err
}

func (x *x1) Stop(ctx context.Context, _ string) error {
	_, err := x.input(ctx, "", "turn.stop_requested", `{"reason":"enough","turn_id":`+Quote(string(x.turn))+`}`)
	return err
}

// input publishes on the session's input subject until a server replies.
func (x *x1) input(ctx context.Context, key, typ, payload string) (*x1wire.Problem, error) {
	x.opt.Progress()
	body := fmt.Sprintf(`{"session_id":%q,"client_id":%q,"type":%q,"payload":%s}`, x.opt.Session, key, typ, payload)
	_, problem, err := x.request(ctx, x1wire.Input, body)
	return problem, err
}

// request sends a request until a server replies with something else than that it cannot answer now.
func (x *x1) request(ctx context.Context, kind x1wire.Kind, body string) (reply []byte, problem *x1wire.Problem, err error) {
	for {
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		m, err := x.nc.RequestWithContext(once, x1wire.Subject(chat.SessionID(x.opt.Session), kind), []byte(body))
		cancel()
		if err == nil {
			var r struct { // a new one for each reply: one without an error leaves the field as it is
				Error *x1wire.Problem `json:"error"`
			}
			if err := json.Unmarshal(m.Data, &r); err != nil {
				return nil, nil, fmt.Errorf("%w: %s", err, m.Data)
			}
			if r.Error == nil {
				return m.Data, nil, nil
			}
			if err = fmt.Errorf("%s: %d %s: %s", kind, r.Error.Code, r.Error.Reason, r.Error.Description); r.Error.Reason != chat.Unavailable {
				return nil, r.Error, err
			}
		}
		x.opt.Note("%s at %q: %v", kind, x.nc.ConnectedUrl(), err)
		if sleep.For(ctx, pauseBetween) != nil {
			return nil, nil, fmt.Errorf("%w; the last was: %w", context.Cause(ctx), err)
		}
	}
}

// follow reads events until the turn ends or asks.
func (x *x1) follow(ctx context.Context) (Seen, error) {
	texts := ""
	for wait := time.Second; ; {
		var found []json.RawMessage
		select {
		case m := <-x.events:
			found = append(found, m.Data)
		case <-time.After(wait): // the last message may be lost
			reply, _, err := x.request(ctx, x1wire.History, fmt.Sprintf(`{"after":%d}`, x.last))
			if err != nil {
				return Seen{}, err
			}
			var r x1wire.HistoryReply
			if err := json.Unmarshal(reply, &r); err != nil {
				return Seen{}, fmt.Errorf("%w: %s", err, reply)
			}
			found, wait = r.Events, time.Second
		case <-ctx.Done():
			return Seen{}, context.Cause(ctx)
		}
		for _, raw := range found {
			e, err := chat.ParseEvent(raw)
			if err != nil {
				return Seen{}, fmt.Errorf("%w: %s", err, raw)
			}
			if e.Seq > x.last+1 { // messages are missing: the history has them
				wait = 0
				break
			}
			if e.Seq <= x.last {
				continue
			}
			x.last = e.Seq
			x.opt.Progress()
			if b, ok := e.Body.(chat.TurnStarted); ok {
				x.turn = b.TurnID
			}
			if seen, ok := seenIn(&e, &texts); ok {
				return seen, nil
			}
		}
	}
}
