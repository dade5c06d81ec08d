package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/x1"
)

// line is what was said, in any dialect's words.
func line(who, text string) string { return who + ": " + text }

// spokenIn are the lines of a list of events, of the main line of work.
func spokenIn(events []chat.Event) (list []string) {
	for _, e := range events {
		if e.Workstream != "" {
			continue
		}
		switch b := e.Body.(type) {
		case chat.UserMessage:
			list = append(list, line("user", b.Text))
		case chat.AgentText:
			list = append(list, line("agent", b.Text))
		}
	}
	return list
}

// listenNative follows the session with the Go client. Its context bounds the
// whole test, generously: it only catches what hangs.
func (h *hall) listenNative(t *testing.T) (*reader, context.Context) {
	t.Helper()
	c, r := h.connect(""), newReader("native")
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	watched := make(chan error, 1)
	go func() { watched <- r.watchClient(ctx, c, chat.SessionID(h.id)) }()
	t.Cleanup(func() { cancel(); <-watched })
	return r, ctx
}

// vertesiaMessage is one compact message.
type vertesiaMessage struct {
	Type    int             `json:"t"`
	Text    string          `json:"m"`
	Line    string          `json:"w"`
	Block   json.RawMessage `json:"i"`
	Final   int             `json:"f"`
	At      float64         `json:"ts"`
	Details struct {
		ActivityID string `json:"activity_id"`
		Status     string `json:"status"`
	} `json:"d"`
}

// types of compact messages.
const (
	vertesiaComplete = 4
	vertesiaAnswer   = 7
	vertesiaQuestion = 8
	vertesiaRequest  = 9
	vertesiaIdle     = 10
	vertesiaChunk    = 12
)

func spokenInVertesia(messages []vertesiaMessage) (list []string) {
	for _, m := range messages {
		if m.Line != "" && m.Line != "main" {
			continue
		}
		switch m.Type {
		case vertesiaQuestion:
			list = append(list, line("user", m.Text))
		case vertesiaAnswer:
			list = append(list, line("agent", m.Text))
		}
	}
	return list
}

// vertesiaHistory is what GET updates lists.
func (h *hall) vertesiaHistory() []vertesiaMessage {
	h.t.Helper()
	var page struct {
		Messages []vertesiaMessage `json:"messages"`
	}
	if err := json.Unmarshal([]byte(h.get("/api/v1/agents/"+h.id+"/updates")), &page); err != nil {
		h.t.Fatal(err)
	}
	return page.Messages
}

// lettaList is what Letta's list of messages says.
func (h *hall) lettaList() (list []string) {
	h.t.Helper()
	var rows []struct {
		Type    string `json:"message_type"`
		Content any    `json:"content"`
	}
	if err := json.Unmarshal([]byte(h.get("/v1/conversations/"+h.id+"/messages?order=asc&limit=1000")), &rows); err != nil {
		h.t.Fatal(err)
	}
	for _, r := range rows {
		switch r.Type {
		case "user_message":
			list = append(list, line("user", fmt.Sprint(r.Content)))
		case "assistant_message":
			list = append(list, line("agent", fmt.Sprint(r.Content)))
		}
	}
	return list
}

// vertesiaEar follows the stream; it comes back with the timestamp of the last
// message.
type vertesiaEar struct {
	mu       sync.Mutex
	messages []vertesiaMessage
	faults   []string
	news     chan struct{}
}

func (h *hall) listenVertesia(t *testing.T) *vertesiaEar {
	t.Helper()
	v := &vertesiaEar{news: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	address := "http://" + h.addr + "/api/v1/agents/" + h.id + "/stream"
	go func() {
		defer close(done)
		for since := 0.0; ctx.Err() == nil; pause(ctx, 20*time.Millisecond) {
			v.once(ctx, fmt.Sprintf("%s?since=%.3f", address, since), &since)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
		for _, f := range v.faults {
			t.Errorf("vertesia: %s", f)
		}
	})
	return v
}

func (v *vertesiaEar) once(ctx context.Context, url string, since *float64) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return
	}
	res, err := client.Do(r)
	if err != nil {
		return
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		data, ok := strings.CutPrefix(strings.TrimSpace(text), "data: ")
		if !ok {
			continue
		}
		var m vertesiaMessage
		err = json.Unmarshal([]byte(data), &m)
		v.mu.Lock()
		if err != nil {
			v.faults = append(v.faults, err.Error()+": "+data)
		}
		if m.At <= *since {
			v.faults = append(v.faults, fmt.Sprintf("%.3f came after %.3f", m.At, *since))
		}
		*since = m.At
		v.messages = append(v.messages, m)
		close(v.news)
		v.news = make(chan struct{})
		v.mu.Unlock()
	}
}

func (v *vertesiaEar) all() ([]vertesiaMessage, chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.messages, v.news
}

// until waits for a message after the first so many.
func (v *vertesiaEar) until(t testing.TB, from int, fits func(vertesiaMessage) bool) vertesiaMessage {
	t.Helper()
	late := time.After(60 * time.Second)
	for {
		messages, news := v.all()
		for ; from < len(messages); from++ {
			if fits(messages[from]) {
				return messages[from]
			}
		}
		select {
		case <-news:
		case <-late:
			t.Fatalf("no such message; the last were %+v", messages[max(0, len(messages)-4):])
		}
	}
}

// x1Ear follows the session's events on NATS, and asks history for what it
// lacks.
type x1Ear struct {
	mu     sync.Mutex
	events map[chat.Seq]chat.Event
	deltas int
}

func (h *hall) listenX1(t *testing.T) *x1Ear {
	t.Helper()
	x := &x1Ear{events: map[chat.Seq]chat.Event{}}
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
		if _, err := h.nc.Subscribe(x1.Subject(chat.SessionID(h.id), kind), do); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	x.fill(t, h) // what was before
	return x
}

// list is what it has up to the first gap.
func (x *x1Ear) list() (list []chat.Event) {
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

// fill asks history for what is missing.
func (x *x1Ear) fill(t testing.TB, h *hall) {
	t.Helper()
	for {
		after := len(x.list())
		m, err := h.nc.Request(x1.Subject(chat.SessionID(h.id), x1.History), fmt.Appendf(nil, `{"after":%d}`, after), 30*time.Second)
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

// archive is what JetStream has of the session.
func (h *hall) archive() (events []chat.Event) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 60*time.Second)
	defer cancel()
	js, err := jetstream.New(h.nc)
	if err != nil {
		h.t.Fatal(err)
	}
	consumer, err := js.OrderedConsumer(ctx, x1.ArchiveStream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{x1.Subject(chat.SessionID(h.id), x1.Archive)}})
	if err != nil {
		h.t.Fatal(err)
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	for left := int(info.NumPending); left > 0; {
		batch, err := consumer.FetchNoWait(min(left, 500))
		if err != nil {
			h.t.Fatal(err)
		}
		got := 0
		for m := range batch.Messages() {
			e, err := chat.ParseEvent(m.Data())
			if err != nil {
				h.t.Fatal(err)
			}
			events, left, got = append(events, e), left-1, got+1
		}
		if err := batch.Error(); err != nil {
			h.t.Fatal(err)
		}
		if got == 0 {
			break // the rest is gone: it was erased meanwhile
		}
	}
	return events
}

// nth matches the n-th event of a type on the main line.
func nth(typ string, n int) func(chat.Event) bool {
	return func(e chat.Event) bool {
		if e.Type == typ && e.Workstream == "" {
			n--
			return n == 0
		}
		return false
	}
}

// mainDone is the end of a turn of the main line.
func mainDone(e chat.Event) bool { return e.Type == "turn.completed" && e.Workstream == "" }
