package sidecar

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sleep"
)

// draft is an event to append.
type draft struct {
	typ     string
	payload any
	key     string // idempotency key
}

// writer appends to the session, one event after the other.
type writer struct {
	s     *Sidecar
	epoch int64 // set once, before other goroutines start
	ready atomic.Bool

	mu sync.Mutex // held while an event is sent
}

func (w *writer) attached() bool { return w.ready.Load() }

// attach takes an epoch; it fails with a conflict if another sidecar has it.
func (w *writer) attach(ctx context.Context, epoch int64) error {
	w.epoch = epoch
	_, err := w.send(ctx, draft{typ: x1.AttachedType, payload: x1.Attached{Epoch: epoch, Instance: w.s.instance}, key: fmt.Sprintf("attach:%d:%s", epoch, w.s.instance)})
	w.ready.Store(err == nil)
	return err
}

// send stores a draft and returns when it is durable. If the answer is lost it sends the
// same key again, so the event is stored once. It retries while the server is not
// connected.
func (w *writer) send(ctx context.Context, d draft) (x1.Reply, error) {
	payload, err := json.Marshal(d.payload)
	if err != nil {
		return x1.Reply{}, chat.Errorf(chat.Invalid, "the payload is not JSON").Because(err)
	}
	body, err := json.Marshal(x1.Message{
		Session: w.s.opt.Session, Timestamp: time.Now().UTC().Format(time.RFC3339Nano), Type: d.typ, Payload: payload, ClientID: d.key, Epoch: w.epoch,
	})
	if err != nil {
		return x1.Reply{}, chat.Errorf(chat.Invalid, "the payload is not JSON").Because(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		r, err := w.try(ctx, body)
		switch chat.CodeOf(err) {
		case "":
			return r, nil
		case chat.Unavailable, chat.SlowDown, chat.Internal:
		case chat.Conflict:
			if chat.ReasonOf(err) == chat.EpochSuperseded && d.typ != x1.AttachedType {
				err = w.s.hasSidecar("a newer one")
				w.s.stop(err)
			}
			return r, err
		default:
			return r, err
		}
		w.s.log.Debug("an event could not be stored yet; trying again", "err", err)
		if sleep.For(ctx, wait) != nil {
			return r, chat.Errorf(chat.Unavailable, "the server is not connected; the event was not stored").Because(err)
		}
	}
}

func (w *writer) try(ctx context.Context, body []byte) (x1.Reply, error) {
	var r x1.Reply
	data, _, err := w.s.conn.request(ctx, x1.Subject(w.s.opt.Session, x1.Events), body, requestWait)
	if err != nil {
		if errors.Is(err, nats.ErrMaxPayload) {
			return r, chat.Errorf(chat.TooLarge, "an event has at most %d KiB", chat.MaxEvent>>10)
		}
		return r, chat.Errorf(chat.Unavailable, "NATS gives no answer").Because(err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, chat.Errorf(chat.Unavailable, "the server's answer is not understood").Because(err)
	}
	if r.Error != nil {
		return r, chat.Errorf(r.Error.Reason, "%s", r.Error.Description).WithReason(r.Error.Refusal)
	}
	return r, nil
}
