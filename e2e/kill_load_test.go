// Tests of the log, the turns and the readers under repeated kills.

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/sleep"
)

const (
	killRounds = 8
	killSeed   = 20261115
)

// load writes, streams and asks while the server is being killed.
type load struct {
	t       *testing.T
	c       *client.Client
	url     string
	readers map[chat.SessionID][]*reader

	mu    sync.Mutex
	acked map[chat.SessionID]map[string]chat.Event // by client id
	want  map[chat.SessionID]map[chat.Seq]string   // the expected answer to each message
}

// TestNothingIsLostWhenKilledUnderLoad kills the server repeatedly under load. No
// acknowledged event is lost, nothing is stored twice, every reader that resumes with
// its cursor sees the same events, and every turn ends.
func TestNothingIsLostWhenKilledUnderLoad(t *testing.T) {
	data, addr := t.TempDir(), freeport.Addr(t)
	p := serveAt(t, addr, data)
	l := &load{t: t, c: p.connect(""), url: p.url, readers: map[chat.SessionID][]*reader{},
		acked: map[chat.SessionID]map[string]chat.Event{}, want: map[chat.SessionID]map[chat.Seq]string{}}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, errors.New("the whole test took too long"))
	defer cancel()
	watch, leave := context.WithCancel(ctx)
	defer leave()
	var watching, working sync.WaitGroup
	defer watching.Wait()
	defer leave()

	var logs, streams []chat.SessionID
	for i := range 3 {
		logs = append(logs, l.session(ctx, watch, &watching, fmt.Sprintf("log-%d", i), "none"))
		streams = append(streams, l.session(ctx, watch, &watching, fmt.Sprintf("stream-%d", i), "demo"))
	}
	ends, stop := context.WithCancel(ctx)
	for i := range 6 {
		working.Go(func() { l.write(ctx, ends, logs[i%len(logs)], i) })
	}
	for i, id := range streams {
		r := l.readers[id][0]
		working.Go(func() { l.streamTurns(ctx, ends, id, r, i) })
	}

	random := rand.New(rand.NewPCG(killSeed, 1))
	asked := map[chat.SessionID]time.Time{}
	for round := range killRounds {
		id := l.session(ctx, watch, &watching, fmt.Sprintf("ask-%d", round), "demo")
		if _, err := l.c.Say(ctx, id, "/ask text timeout=600"); err != nil {
			t.Fatal(err)
		}
		asked[id] = time.Now()
		sleep.For(ctx, time.Duration(300+random.IntN(1200))*time.Millisecond)
		p.kill()
		p = serveAt(t, addr, data)
	}
	stop()
	done := make(chan struct{})
	go func() { working.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal(context.Cause(ctx))
	}

	l.prompts(ctx, asked)
	l.check(ctx)
	leave()
	watching.Wait()
	if code, out, stderr := command(t, "verify", "--url", p.url); code != 0 {
		t.Errorf("verify: %d\n%s%s", code, out, stderr)
	}
	if code := p.terminate(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
}

// session creates a session and starts two readers.
func (l *load) session(ctx, watch context.Context, wg *sync.WaitGroup, name, agent string) chat.SessionID {
	id := chat.SessionID(name)
	l.t.Helper()
	if _, err := l.c.Create(ctx, client.NewSession{ID: id, Agent: agent}); err != nil {
		l.t.Fatal(err)
	}
	byClient, raw := newReader(string(id)+"/client"), newReader(string(id)+"/raw")
	l.readers[id] = []*reader{byClient, raw}
	for _, f := range []func() error{
		func() error { return byClient.watchClient(watch, l.c, id) },
		func() error { return raw.watchRaw(watch, l.url, id) },
	} {
		wg.Go(func() {
			if err := f(); watch.Err() == nil {
				l.t.Errorf("a reader of %s ended: %v", id, err)
			}
		})
	}
	return id
}

// write appends until ends is done and records every acknowledged event.
func (l *load) write(ctx, ends context.Context, id chat.SessionID, who int) {
	for i := 0; ends.Err() == nil; i++ {
		key := fmt.Sprintf("w%d-%d", who, i)
		events, err := l.c.Append(ctx, id, chat.NewDraft(chat.UserMessage{Text: "message " + key}).As(key))
		if err != nil {
			l.t.Errorf("append %s: %v", key, err)
			return
		}
		l.mu.Lock()
		if l.acked[id] == nil {
			l.acked[id] = map[string]chat.Event{}
		}
		l.acked[id][key] = events[0]
		l.mu.Unlock()
		sleep.For(ends, 5*time.Millisecond)
	}
}

// streamTurns lets the demo agent stream, one turn after the other.
func (l *load) streamTurns(ctx, ends context.Context, id chat.SessionID, r *reader, who int) {
	for i := 0; ends.Err() == nil; i++ {
		n := 50 + 90*((who+i)%4)
		e, err := l.c.Send(ctx, id, chat.UserMessage{Text: fmt.Sprintf("/stream %d 300", n)}, fmt.Sprintf("say-%d", i))
		if err != nil {
			l.t.Errorf("say: %v", err)
			return
		}
		words := make([]string, n)
		for w := range words {
			words[w] = fmt.Sprintf("tok%d", w+1)
		}
		l.mu.Lock()
		if l.want[id] == nil {
			l.want[id] = map[chat.Seq]string{}
		}
		l.want[id][e.Seq] = strings.Join(words, " ")
		l.mu.Unlock()
		turn, err := r.until(ctx, func(o chat.Event) bool {
			b, ok := o.Body.(chat.TurnStarted)
			return ok && b.Trigger == e.Seq
		})
		if err == nil {
			_, err = r.until(ctx, func(o chat.Event) bool {
				return o.Turn == turn.Turn && o.Type == "turn.completed"
			})
		}
		if err != nil {
			l.t.Errorf("%s: the turn for %d did not end: %v", id, e.Seq, err)
			return
		}
	}
}

// prompts answers the prompt of each round: each is still open and has its deadline.
func (l *load) prompts(ctx context.Context, asked map[chat.SessionID]time.Time) {
	for id, at := range asked {
		r := l.readers[id][0]
		e, err := r.until(ctx, func(e chat.Event) bool { return e.Type == "agent.input_request" })
		if err != nil {
			l.t.Fatalf("%s: nothing was asked: %v", id, err)
		}
		req := e.Body.(chat.AgentInputRequest)
		if got := req.Deadline.Time().Sub(e.At.Time()); got < 599*time.Second || got > 601*time.Second {
			l.t.Errorf("%s: %s to answer", id, got)
		}
		snap, err := l.c.Get(ctx, id)
		if err != nil || snap.OpenPrompts != 1 || snap.Status != chat.Waiting {
			l.t.Errorf("%s: %+v %v", id, snap, err)
		}
		if late := e.At.Time().Sub(at); late > 30*time.Second {
			l.t.Errorf("%s was asked %s late", id, late)
		}
		if _, err := l.c.Answer(ctx, id, req.RequestID, chat.Answer{Text: "Ann of " + string(id)}); err != nil {
			l.t.Errorf("%s: the answer was refused: %v", id, err)
			continue
		}
		end, err := r.until(ctx, func(e chat.Event) bool { return e.Type == "turn.completed" })
		if err != nil || end.Body.(chat.TurnCompleted).Outcome != chat.Done {
			l.t.Errorf("%s: %+v %v", id, end.Body, err)
		}
		want := "You answered: Ann of " + string(id)
		if _, err := r.until(ctx, func(e chat.Event) bool { b, ok := e.Body.(chat.AgentText); return ok && b.Text == want }); err != nil {
			l.t.Errorf("%s: there is no text %q", id, want)
		}
	}
}

// check compares the log with the acknowledged events, the expected answers and what
// the readers saw.
func (l *load) check(ctx context.Context) {
	pieces, resumed := 0, 0
	for id, readers := range l.readers {
		var facts []chat.Event
		keys := map[string]chat.Seq{}
		var prev chat.Hash
		for e, err := range l.c.Events(ctx, id, client.EventQuery{}) {
			if err != nil {
				l.t.Fatal(err)
			}
			if e.Seq != chat.Seq(len(facts)+1) || e.Prev != prev {
				l.t.Fatalf("%s: event %d follows %d, chained %t", id, e.Seq, len(facts), e.Prev == prev)
			}
			prev = e.Fact().Hash()
			if e.ClientID != "" {
				key := e.Actor.Key() + " " + e.ClientID
				if keys[key] != 0 {
					l.t.Errorf("%s: %s is there as %d and %d", id, key, keys[key], e.Seq)
				}
				keys[key] = e.Seq
			}
			if e.Type == "turn.resumed" {
				resumed++
			}
			facts = append(facts, e)
		}
		for key, e := range l.acked[id] {
			if int(e.Seq) > len(facts) || !bytes.Equal(facts[e.Seq-1].AppendJSON(nil), e.AppendJSON(nil)) {
				l.t.Errorf("%s: %s was acknowledged as %d and is not there", id, key, e.Seq)
			}
		}
		l.turns(id, facts)
		for _, r := range readers {
			last := facts[len(facts)-1].Seq
			if _, err := r.until(ctx, func(e chat.Event) bool { return e.Seq == last }); err != nil {
				l.t.Errorf("%s has not seen event %d: %v", r.name, last, err)
			}
			r.mu.Lock()
			same := slices.EqualFunc(r.events, facts, func(a, b chat.Event) bool { return bytes.Equal(a.AppendJSON(nil), b.AppendJSON(nil)) })
			if !same {
				r.fault("it saw %d events that are not the %d of the log", len(r.events), len(facts))
			}
			for id := range r.blocks {
				r.fault("block %s never ended", id)
			}
			for _, f := range r.faults {
				l.t.Error(f)
			}
			pieces += r.shown
			r.mu.Unlock()
		}
	}
	if pieces == 0 || resumed == 0 {
		l.t.Errorf("%d pieces seen, %d turns resumed: the test proves nothing", pieces, resumed)
	}
	l.t.Logf("%d sessions, %d pieces seen, %d turns resumed", len(l.readers), pieces, resumed)
}

// turns checks that each message was answered once, with the expected text.
func (l *load) turns(id chat.SessionID, facts []chat.Event) {
	answers, ended := map[chat.TurnID]string{}, map[chat.TurnID]chat.Outcome{}
	trigger := map[chat.Seq]chat.TurnID{}
	for _, e := range facts {
		switch b := e.Body.(type) {
		case chat.TurnStarted:
			trigger[b.Trigger] = b.TurnID
		case chat.AgentText:
			answers[e.Turn] += b.Text
		case chat.TurnCompleted:
			if ended[b.TurnID] != "" {
				l.t.Errorf("%s: turn %s ended twice", id, b.TurnID)
			}
			ended[b.TurnID] = b.Outcome
		}
	}
	for _, turn := range trigger {
		if ended[turn] != chat.Done {
			l.t.Errorf("%s: turn %s ended as %q", id, turn, ended[turn])
		}
	}
	for seq, want := range l.want[id] {
		if got := answers[trigger[seq]]; got != want {
			l.t.Errorf("%s: message %d was answered with %d bytes %q, want %d", id, seq, len(got), clip(got), len(want))
		}
	}
}
