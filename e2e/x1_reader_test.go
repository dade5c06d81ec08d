// Test support: an x1 reader for the cross-dialect tests.

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/x1"
)

// x1Reader follows the session's events on NATS, and requests missing events from
// the history subject.
type x1Reader struct {
	mu     sync.Mutex
	events map[chat.Seq]chat.Event
	deltas int
}

func (s *sharedSession) followX1(t *testing.T) *x1Reader {
	t.Helper()
	x := &x1Reader{events: map[chat.Seq]chat.Event{}}
	take := func(data []byte) {
		e, err := chat.ParseEvent(data)
		if err != nil {
			t.Errorf("x1: %v: %s", err, data)
			return
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		if had, ok := x.events[e.Seq]; ok && had.ID != e.ID {
			t.Errorf("x1: number %d is %s and %s", e.Seq, had.ID, e.ID)
		}
		x.events[e.Seq] = e
	}
	for kind, do := range map[x1.Kind]func(*nats.Msg){
		x1.Events: func(m *nats.Msg) { take(m.Data) },
		x1.Delta:  func(*nats.Msg) { x.mu.Lock(); x.deltas++; x.mu.Unlock() },
	} {
		if _, err := s.nc.Subscribe(x1.Subject(chat.SessionID(s.id), kind), do); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	x.fill(t, s) // the events before the subscription
	return x
}

// list returns the events up to the first gap.
func (x *x1Reader) list() (list []chat.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for seq := chat.Seq(1); ; seq++ {
		e, ok := x.events[seq]
		if !ok {
			return list
		}
		list = append(list, e)
	}
}

// fill requests the missing events from the history subject.
func (x *x1Reader) fill(t testing.TB, s *sharedSession) {
	t.Helper()
	for {
		after := len(x.list())
		m, err := s.nc.Request(x1.Subject(chat.SessionID(s.id), x1.History), fmt.Appendf(nil, `{"after":%d}`, after), 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var r x1.HistoryReply
		if err := json.Unmarshal(m.Data, &r); err != nil || r.Error != nil {
			t.Fatalf("%v %s", err, m.Data)
		}
		x.mu.Lock()
		for _, raw := range r.Events {
			e, err := chat.ParseEvent(raw)
			if err != nil {
				t.Error(err)
			}
			x.events[e.Seq] = e
		}
		x.mu.Unlock()
		if !r.More {
			return
		}
	}
}

// archive returns the events of the session in JetStream.
func (s *sharedSession) archive() (events []chat.Event) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 60*time.Second)
	defer cancel()
	js, err := jetstream.New(s.nc)
	if err != nil {
		s.t.Fatal(err)
	}
	consumer, err := js.OrderedConsumer(ctx, x1.ArchiveStream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{x1.Subject(chat.SessionID(s.id), x1.Archive)}})
	if err != nil {
		s.t.Fatal(err)
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	for left := int(info.NumPending); left > 0; {
		batch, err := consumer.FetchNoWait(min(left, 500))
		if err != nil {
			s.t.Fatal(err)
		}
		got := 0
		for m := range batch.Messages() {
			e, err := chat.ParseEvent(m.Data())
			if err != nil {
				s.t.Fatal(err)
			}
			events, left, got = append(events, e), left-1, got+1
		}
		if err := batch.Error(); err != nil {
			s.t.Fatal(err)
		}
		if got == 0 {
			break // the rest was erased meanwhile
		}
	}
	return events
}
