package vertesia

import (
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

func TestStreamContinuesHistory(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("/stream 300", false)
	s := w.stream(id, "")
	s.until(is(Complete))
	rising(t, s.seen)
	whole := w.updates(id, "")
	rising(t, whole)
	if !equal(stored(s.seen), whole) {
		t.Errorf("the stream and the history differ:\n%v\n%v", stored(s.seen), whole)
	}
	// After every message a page and a stream have exactly the rest.
	for i, m := range whole {
		since := "?since=" + strconv.FormatFloat(m.TS, 'f', -1, 64)
		if rest := w.updates(id, since); !equal(rest, whole[i+1:]) {
			t.Errorf("after message %d: %v, want %v", i, rest, whole[i+1:])
		}
		if i == len(whole)-1 {
			break
		}
		r := w.stream(id, since+"&skipHistory=true")
		r.until(is(Complete))
		r.close()
		if !equal(r.seen, whole[i+1:]) {
			t.Errorf("a stream after message %d: %v, want %v", i, r.seen, whole[i+1:])
		}
	}
}

// A reader that is cut at any message, also between chunks, continues after the last
// message it has: no text is lost or doubled.
func TestReaderContinuesAfterAnyCut(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("/stream 400 400", false)
	var all []compactMessage
	rnd := rand.New(rand.NewPCG(1, 2))
	query := ""
	for cuts := 0; ; cuts++ {
		s := w.stream(id, query)
		n := 1 + rnd.IntN(12)
		over := false
		for len(s.seen) < n && !over {
			m, err := s.next()
			if err != nil {
				t.Fatal(err)
			}
			over = m.T == Complete
		}
		s.close()
		all = append(all, s.seen...)
		if over {
			break
		}
		query = after(all[len(all)-1])
	}
	rising(t, all)
	want := words1toN(400)
	if got := chunkText(all); !strings.HasPrefix(want, got) {
		t.Errorf("the chunks say %q", got)
	}
	if got := texts(all, Answer); len(got) != 1 || got[0] != want {
		t.Errorf("answers: %q", got)
	}
	if whole := w.updates(id, ""); !equal(stored(all), whole) {
		t.Errorf("what came in pieces:\n%v\nhistory:\n%v", stored(all), whole)
	}
}

func TestOpenBlockIsPartOfTheHistory(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("/stream 100000 200", true)
	s := w.stream(id, "")
	for range 5 {
		s.until(isChunk)
	}
	have := w.updates(id, "")
	if !strings.HasPrefix(chunkText(have), chunkText(s.seen)) {
		t.Errorf("the history has %q, the stream had %q", chunkText(have), chunkText(s.seen))
	}
	// A new reader that continues after the history gets the rest of the text.
	r := w.stream(id, after(have[len(have)-1]))
	r.until(isChunk)
	w.signal(id, "Stop", `{}`)
	final := r.until(is(Answer))
	if got := chunkText(have) + chunkText(r.seen); !strings.HasPrefix(final.M, got) {
		t.Errorf("the chunks say %q, the answer is %q", got, final.M)
	}
	if want := fmt.Sprintf(`{"activity_id":%q,"streamed":true,"event_class":"user_content"}`, r.seen[0].I); string(final.D) != want {
		t.Errorf("the answer replaces %s, want %s", final.D, want)
	}
}

// Positions are the same after a restart: a reader continues in the middle of a block.
func TestResumeOverARestart(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("/stream 250 250", false)
	s := w.stream(id, "")
	for len(chunkText(s.seen)) < 100 {
		s.until(isChunk)
	}
	s.close()
	all := s.seen
	w = w.restart()
	r := w.stream(id, after(all[len(all)-1]))
	r.until(is(Complete))
	all = append(all, r.seen...)
	rising(t, all)
	if got := chunkText(all); !strings.HasPrefix(words1toN(250), got) {
		t.Errorf("the chunks say %q", got)
	}
	if got := texts(all, Answer); len(got) != 1 || got[0] != words1toN(250) {
		t.Errorf("answers: %q", got)
	}
	if !equal(stored(all), w.updates(id, "")) {
		t.Error("what was seen is not what is stored")
	}
}

func TestTokensAreGrouped(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("/sleep 0.2", true)
	s := w.stream(id, "")
	s.until(is(Question))
	w.signal(id, "UserInput", `{"message":"/stream 3000"}`)
	s.until(func(m compactMessage) bool { return m.T == Answer && strings.HasPrefix(m.M, "tok1 ") })
	chunks := 0
	for _, m := range s.seen {
		if isChunk(m) && strings.HasPrefix(m.M, "tok") {
			chunks++
		}
	}
	t.Logf("3000 tokens in %d chunks", chunks)
	if chunks > 1500 {
		t.Errorf("3000 tokens came in %d chunks", chunks)
	}
}

func TestStreamsAreCompressed(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("/stream 2000", false)
	plain := w.stream(id, "")
	plain.until(is(Complete))
	z := w.stream(id, "", "Accept-Encoding", "gzip")
	raw := &counting{r: z.body}
	unzip, err := gzip.NewReader(raw)
	if err != nil {
		t.Fatal(err)
	}
	z.in.Reset(unzip)
	z.until(is(Complete))
	if !equal(stored(z.seen), stored(plain.seen)) {
		t.Error("a compressed stream says something else")
	}
	t.Logf("%d bytes instead of %d", raw.n, z.raw.Len())
	if raw.n*2 > z.raw.Len() {
		t.Errorf("%d bytes instead of %d are not much less", raw.n, z.raw.Len())
	}
	// History, too.
	_, _, h := w.Call("GET", "/api/v1/agents/"+id+"/updates", "", "Accept-Encoding", "gzip")
	if h.Get("Content-Encoding") != "gzip" {
		t.Errorf("history comes as %q", h.Get("Content-Encoding"))
	}
}

// Readers that join a run at different times share compressed blocks and get the
// same messages.
func TestReadersOfOneRunSeeTheSame(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("hello", true)
	w.stream(id, "").until(is(Idle))
	var all []*stream
	join := func(n int) {
		for range n {
			s := w.stream(id, "", "Accept-Encoding", "gzip")
			unzip, err := gzip.NewReader(s.body)
			if err != nil {
				t.Fatal(err)
			}
			s.in.Reset(unzip)
			all = append(all, s)
		}
	}
	for i, n := range []int{2, 3, 6} {
		join(n)
		for k := range 3 {
			w.signal(id, "UserInput", fmt.Sprintf(`{"message":"/stream %d 400","client_message_id":"c-%d-%d"}`, 20+10*k, i, k))
			for _, s := range all {
				s.until(func(m compactMessage) bool { return m.T == Answer && m.M == words1toN(20+10*k) })
			}
		}
	}
	w.ok("DELETE", "/api/v1/agents/"+id, "", nil)
	whole := []compactMessage(nil)
	for i, s := range all {
		s.until(is(Terminated))
		rising(t, s.seen)
		if whole == nil {
			whole = w.updates(id, "")
		}
		if !equal(stored(s.seen), whole) {
			t.Errorf("reader %d saw something else", i)
		}
	}
}

// counting counts the bytes that are read.
type counting struct {
	r io.Reader
	n int
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += n
	return n, err
}

// A client whose clock is ahead, or that has the last message already, gets what
// follows, and the end of the run.
func TestCursorsBeyondTheEnd(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("hello", true)
	w.stream(id, "").until(is(Idle))
	ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	s := w.stream(id, "?skipHistory=true&since="+ahead)
	w.signal(id, "UserInput", `{"message":"later"}`)
	if m := s.until(is(Answer)); m.M != "You said: later" {
		t.Errorf("%+v", m)
	}
	w.ok("DELETE", "/api/v1/agents/"+id+"?reason=done", "", nil)
	closer := s.until(is(Terminated))
	again := w.stream(id, after(closer))
	if m := again.until(is(Terminated)); m.TS != closer.TS {
		t.Errorf("the end is said again at %v instead of %v", m.TS, closer.TS)
	}
	for _, bad := range []string{"?since=yesterday", "?since=-1", "?since=NaN", "?before=x", "?limit=0", "?limit=many"} {
		if code, body, _ := w.Call("GET", "/api/v1/agents/"+id+"/updates"+bad, ""); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, code, body)
		}
	}
}

// A reader that has the first of two messages of an event gets the second.
func TestCutBetweenTheMessagesOfOneEvent(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("/fail no luck", true)
	s := w.stream(id, "")
	failed := s.until(is(Error))
	idle := s.until(is(Idle))
	if idle.TS <= failed.TS {
		t.Errorf("%v after %v", idle.TS, failed.TS)
	}
	if rest := w.updates(id, after(failed)); len(rest) != 1 || rest[0].TS != idle.TS {
		t.Errorf("after the first of two: %v", rest)
	}
	r := w.stream(id, after(failed))
	if m := r.until(is(Idle)); m.TS != idle.TS || len(r.seen) != 1 {
		t.Errorf("%v", r.seen)
	}
}

func TestSkipHistoryWithoutCursorStartsNow(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("hello", true)
	w.stream(id, "").until(is(Idle))
	s := w.stream(id, "?skipHistory=true")
	w.signal(id, "UserInput", `{"message":"now"}`)
	s.until(is(Idle))
	if s.seen[0].T != Question || s.seen[0].M != "now" {
		t.Errorf("it begins with %+v", s.seen[0])
	}
}

// A reader of a run that is over gets the end, with every cursor.
func TestLateReaderGetsTheEnd(t *testing.T) {
	for _, query := range []string{"", "?skipHistory=true", "?skipHistory=true&since=0", "?since=9999999999999", "?skipHistory=true&since=9999999999999"} {
		t.Run(query, func(t *testing.T) {
			w := newServer(t, setup{})
			id := w.start("hello", false)
			w.rests(id)
			w.stream(id, query).until(is(Complete))
			w.stream(id, query).until(is(Complete))
		})
	}
}

func TestPages(t *testing.T) {
	w := newServer(t, setup{})
	var run struct{ ID string }
	w.ok("POST", "/api/v1/agents/record", `{"interaction":"mine","workflow_id":"w"}`, &run)
	for i := range 3 {
		var drafts []chat.Draft
		for k := range 1000 {
			drafts = append(drafts, chat.NewDraft(chat.AgentText{Text: fmt.Sprint(i*1000 + k)}))
		}
		if _, err := w.Sessions.Append(t.Context(), chat.Trusted, chat.SessionID(run.ID), drafts); err != nil {
			t.Fatal(err)
		}
	}
	whole := w.updates(run.ID, "")
	if len(whole) != 3001 {
		t.Fatalf("%d messages, want 3001: there is no cap", len(whole))
	}
	var forward, backward []compactMessage
	read := func(query string) (list []compactMessage, more bool) {
		var body struct {
			Messages []compactMessage
			More     bool `json:"has_more"`
		}
		w.ok("GET", "/api/v1/agents/"+run.ID+"/updates?limit=700"+query, "", &body)
		return body.Messages, body.More
	}
	for query, more := "", true; more; {
		var page []compactMessage
		page, more = read(query)
		forward = append(forward, page...)
		query = "&since=" + strconv.FormatFloat(page[len(page)-1].TS, 'f', -1, 64)
	}
	for query, more := "&before=9999999999999", true; more; {
		var page []compactMessage
		page, more = read(query)
		backward = append(page, backward...)
		query = "&before=" + strconv.FormatFloat(page[0].TS, 'f', -1, 64)
	}
	if !equal(forward, whole) || !equal(backward, whole) {
		t.Errorf("pages bring %d and %d messages, or other ones", len(forward), len(backward))
	}
}
