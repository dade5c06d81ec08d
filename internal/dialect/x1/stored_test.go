package x1

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
)

// archive reads what JetStream has of a session.
func (w *testServer) archive(id chat.SessionID) (list []got) {
	w.t.Helper()
	reader := w.root()
	defer reader.Close()
	js, err := jetstream.New(reader.Conn)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), testTimeout)
	defer cancel()
	c, err := js.OrderedConsumer(ctx, ArchiveStream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{Subject(id, Archive)}})
	if err != nil {
		w.t.Fatal(err)
	}
	info, err := c.Info(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if info.NumPending == 0 {
		return nil
	}
	batch, err := c.FetchNoWait(int(info.NumPending))
	if err != nil {
		w.t.Fatal(err)
	}
	for m := range batch.Messages() {
		e, err := chat.ParseEvent(m.Data())
		if err != nil {
			w.t.Fatal(err)
		}
		list = append(list, got{e, m.Data()})
	}
	if err := batch.Error(); err != nil {
		w.t.Fatal(err)
	}
	return list
}

// complete waits until the archive has all of a session, and checks that it has
// each event once and in order.
func (w *testServer) complete(id chat.SessionID) {
	w.t.Helper()
	var have []got
	want := w.Events(id)
	reader := w.root()
	defer reader.Close()
	w.until("the archive of "+string(id)+" is complete", func() bool {
		m, err := reader.Request("$JS.API.DIRECT.GET."+ArchiveStream+"."+Subject(id, Archive), nil, testTimeout)
		if err != nil {
			w.t.Fatal(err)
		}
		last, err := chat.ParseEvent(m.Data)
		return err == nil && int(last.Seq) >= len(want)
	})
	// FetchNoWait may return less than the stream has.
	w.until("all of "+string(id)+" can be read", func() bool {
		have = w.archive(id)
		return len(have) >= len(want)
	})
	if len(have) != len(want) {
		w.t.Fatalf("the archive of %s has %d events, the log %d", id, len(have), len(want))
	}
	for i := range have {
		if have[i].Seq != chat.Seq(i+1) || have[i].ID != want[i].ID {
			w.t.Fatalf("the archive of %s has %d at place %d", id, have[i].Seq, i+1)
		}
	}
}

func (w *testServer) create(id chat.SessionID, agent string) {
	w.t.Helper()
	if _, _, err := w.Sessions.Create(w.t.Context(), auth.Local, chat.NewSession{ID: id, Agent: agent}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *testServer) append(id chat.SessionID, bodies ...chat.Body) {
	w.t.Helper()
	var drafts []chat.Draft
	for _, b := range bodies {
		drafts = append(drafts, chat.NewDraft(b))
	}
	if _, err := w.Sessions.Append(w.t.Context(), auth.Local, id, drafts); err != nil {
		w.t.Fatal(err)
	}
}
