package vertesia

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// TestWireSize measures the bytes of a session on the wire. The older form is what
// the shipped package makes of the same messages, one per event of the stream, not
// compressed. The newer one is the compact form with gzip, as the npm client and
// browsers request it.
//
// The session is one of an hour with an assistant: three questions, answered with
// thinking, a plan, searches and queries with their results, a file, two lines of
// parallel work, and answers of a few paragraphs. A model writes 30 to 60 tokens
// per second and chunks go out every 16 ms, so that nearly every chunk is one
// token; here all are, 25 ms apart by the clock of the test. The next piece is written
// when both readers have the last one, so that the result does not depend on the
// machine.
func TestWireSize(t *testing.T) {
	clock := &slowClock{now: time.Date(2026, 11, 15, 9, 30, 0, 123456000, time.UTC)}
	w := newServer(t, setup{now: clock.read, change: func(o *Options) { o.Group, o.Now = time.Nanosecond, clock.read }})
	var run struct{ ID string }
	w.ok("POST", "/api/v1/agents/record", `{"interaction":"analyst"}`, &run)
	z := w.stream(run.ID, "", "Accept-Encoding", "gzip")
	raw := &counting{r: z.body}
	unzip, err := gzip.NewReader(raw)
	if err != nil {
		t.Fatal(err)
	}
	z.in.Reset(unzip)
	a := &author{testServer: w, clock: clock, id: chat.SessionID(run.ID), readers: []*stream{w.stream(run.ID, ""), z}}
	a.awaitStored()
	for i, q := range []string{
		"How did revenue develop in the third quarter, and which regions fell behind?",
		"What explains the south? Please look at new customers and at returns separately.",
		"Write a summary for the board with the three most important numbers, and a table for the appendix.",
	} {
		a.question(i, q)
	}
	plain := a.readers[0]
	last := plain.seen[len(plain.seen)-1].TS
	if got := z.seen[len(z.seen)-1].TS; got != last {
		t.Fatalf("one reader is at %v, the other at %v", last, got)
	}
	var older, chunks, olderChunks, compactChunks, olderHistory int
	for _, m := range plain.seen {
		b, err := json.Marshal(olderForm(m, run.ID))
		if err != nil {
			t.Fatal(err)
		}
		n := len("data: \n\n") + len(b)
		older += n
		if isChunk(m) {
			c, _ := json.Marshal(m)
			chunks, olderChunks, compactChunks = chunks+1, olderChunks+n, compactChunks+len("data: \n\n")+len(c)
		} else {
			olderHistory += len(b) + 1
		}
	}
	_, whole, h := w.Call("GET", "/api/v1/agents/"+run.ID+"/updates", "", "Accept-Encoding", "gzip")
	less := func(n, of int) string {
		return fmt.Sprintf("%7d bytes, %4.1f %% less", n, 100-100*float64(n)/float64(of))
	}
	t.Logf("\n%d messages, %d of them chunks, with %d characters of text in them\nstream, older form            %7d bytes\nstream, as a client gets it   %s\nstream, without compression   %s\nchunks alone, older form      %7d bytes\nchunks alone, without it      %s\nhistory, older form           %7d bytes\nhistory, as a client gets it  %s",
		len(plain.seen), chunks, len(chunkText(plain.seen)), older, less(raw.n, older), less(plain.raw.Len(), older), olderChunks, less(compactChunks, olderChunks), olderHistory, less(len(whole), olderHistory))
	if h.Get("Content-Encoding") != "gzip" || len(whole)*5 > olderHistory {
		t.Errorf("history takes %d bytes of %d: that is not 80 %% less", len(whole), olderHistory)
	}
	if raw.n*5 > older*2 {
		t.Errorf("a stream takes %d bytes of %d: that is not 60 %% less", raw.n, older)
	}
	if strings.Contains(plain.raw.String(), `"workflow_run_id"`) {
		t.Error("the stream is not in the compact form")
	}
}

// olderForm is a message as the shipped package gives it to applications.
func olderForm(m compactMessage, runID string) map[string]any {
	older := map[string]any{"timestamp": m.TS, "workflow_run_id": runID, "type": m.T, "message": m.M, "workstream_id": cmp.Or(m.W, mainLine)}
	if len(m.D) > 0 {
		older["details"] = m.D
	}
	if isChunk(m) {
		older["details"] = map[string]any{"streaming_id": cmp.Or(m.W, mainLine), "is_final": m.F == 1, "activity_id": m.I}
	}
	return older
}

// slowClock is a clock that the test advances.
type slowClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *slowClock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *slowClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// author writes a session as an agent does, and waits for its readers.
type author struct {
	*testServer
	clock    *slowClock
	id       chat.SessionID
	readers  []*stream
	blocks   int
	launched int
	awaited  chat.Seq // the last event whose messages all readers have
}

// awaitStored waits until all readers have the messages of all stored events. An event can
// bring others with it: the text of a workstream brings a change of its phase.
func (a *author) awaitStored() {
	a.t.Helper()
	for e, err := range a.Sessions.Events(a.t.Context(), chat.Trusted, a.id, chat.Range{After: a.awaited}) {
		if err != nil {
			a.t.Fatal(err)
		}
		for range messagesOf(&e) {
			a.await()
		}
		a.awaited = e.Seq
	}
}

// await waits until all readers have the next message.
func (a *author) await() {
	a.t.Helper()
	for _, r := range a.readers {
		if _, err := r.next(); err != nil {
			a.t.Fatal(err)
		}
	}
}

func (a *author) add(line string, body chat.Body) {
	a.t.Helper()
	draft := chat.NewDraft(body)
	draft.Workstream = line
	a.clock.pass(317 * time.Millisecond)
	if _, err := a.Sessions.Append(a.t.Context(), chat.Trusted, a.id, []chat.Draft{draft}); err != nil {
		a.t.Fatal(err)
	}
	a.awaitStored()
}

// write writes a text as previews of one token each, then as an event.
func (a *author) write(line, text string, kind chat.BlockKind) {
	a.t.Helper()
	a.blocks++
	block := chat.BlockID(fmt.Sprintf("b%d-1", 10*a.blocks))
	at := 0
	for _, token := range tokensOfText(text) {
		a.clock.pass(25113 * time.Microsecond)
		p := chat.Preview{Block: block, Offset: at, Text: token, Kind: kind, Workstream: line}
		if err := a.Sessions.Preview(a.t.Context(), chat.Trusted, a.id, []chat.Preview{p}); err != nil {
			a.t.Fatal(err)
		}
		at += len(token)
		a.await()
	}
	if kind == chat.ThinkingBlock {
		a.add(line, chat.AgentThinking{Block: block, Text: text})
		return
	}
	a.add(line, chat.AgentText{Block: block, Text: text, Final: line == ""})
}

// tokensOfText splits a text as models do: a word with the space before it, long
// words in two.
func tokensOfText(text string) (tokens []string) {
	for i, word := range strings.SplitAfter(text, " ") {
		word = strings.TrimSuffix(word, " ")
		if i > 0 {
			word = " " + word
		}
		for len(word) > 8 {
			tokens = append(tokens, word[:6])
			word = word[6:]
		}
		if word != "" {
			tokens = append(tokens, word)
		}
	}
	return tokens
}

// question is a person's message and the work of the agent on it.
func (a *author) question(n int, text string) {
	a.add("", chat.UserMessage{Text: text})
	a.write("", fmt.Sprintf("The person asks for part %d of the analysis. I need the figures by region first, then the change against the quarter before, "+
		"and I should check whether the late bookings of September are already in the data before I draw a conclusion from them.", n+1), chat.ThinkingBlock)
	a.add("", chat.AgentPlan{Tasks: []chat.Task{
		{ID: "1", Title: "Read the figures by region", Status: "done"}, {ID: "2", Title: "Compare with the second quarter", Status: "in_progress"},
		{ID: "3", Title: "Explain the differences", Status: "pending"}, {ID: "4", Title: "Write the summary", Status: "pending"},
	}})
	for i, sql := range []string{
		"select region, sum(amount) from sales where quarter = 3 group by region order by 2 desc",
		"select region, count(distinct customer) from sales where first_order >= '2026-07-01' group by region",
	} {
		id := fmt.Sprintf("call-%d-%d", n, i)
		params, _ := json.Marshal(map[string]any{"sql": sql, "limit": 20})
		a.add("", chat.AgentToolCall{CallID: id, Tool: "query_warehouse", Params: params})
		a.add("", chat.AgentToolProgress{CallID: id, Tool: "query_warehouse", Done: 1, Total: 2, Message: "The query runs."})
		a.add("", chat.AgentToolResult{CallID: id, Tool: "query_warehouse", Result: table(n, i)})
	}
	for i, name := range []string{"returns", "customers"} {
		id := fmt.Sprintf("%s%d", name, n)
		if _, err := a.Sessions.Launch(a.t.Context(), chat.Trusted, a.id, chat.Launch{ID: id, Name: "Look at " + name, Instruction: "Find out how " + name + " developed by region.", Agent: "nobody"}); err != nil {
			a.t.Fatal(err)
		}
		a.launched++
		a.Until(a.id, "agent.status", a.launched) // it waits for a worker; none comes, what follows is said in its name
		a.awaitStored()
		a.write(id, fmt.Sprintf("In the south, %s rose by %d percent against the quarter before, nearly all of it in July; the other regions stayed within two percent.", name, 9+i), chat.TextBlock)
	}
	a.add("", chat.AgentArtifact{ArtifactID: fmt.Sprintf("t%d", n), ArtifactType: "table", Title: "Revenue by region", Path: fmt.Sprintf("files/revenue-%d.csv", n), MediaType: "text/csv", Size: 2048})
	a.write("", answers[n], chat.TextBlock)
	a.add("", chat.AgentUsage{Model: "large-2", Usage: chat.Usage{InputTokens: 5200 + 900*int64(n), OutputTokens: 610}})
}

// table is the result of a query.
func table(n, i int) json.RawMessage {
	var rows []map[string]any
	for r, region := range []string{"north", "south", "east", "west", "overseas"} {
		rows = append(rows, map[string]any{"region": region, "quarter": "2026-Q3", "amount": 1180000 - 137000*r + 1000*n, "change_percent": 4.5 - 2.25*float64(r) + float64(i)})
	}
	b, _ := json.Marshal(map[string]any{"columns": []string{"region", "quarter", "amount", "change_percent"}, "rows": rows, "row_count": len(rows), "elapsed_ms": 84})
	return b
}

// answers are the last texts of the turns.
var answers = []string{
	"Revenue grew by 3.1 percent against the second quarter, which is a little below plan. The north carried the growth with 4.5 percent, mostly from renewals that were due " +
		"in August. The east and the west were flat: both won about as much new business as they lost to the end of the summer campaign.\n\n" +
		"Two regions fell behind. The south lost 2.3 percent although the number of orders rose, because the average order became smaller. Overseas lost 4.5 percent; there the " +
		"figures for September are not complete, since bookings arrive with a delay of two weeks, so this number will still improve.\n\n" +
		"If you want to act on one thing only, look at the size of orders in the south: it explains three quarters of the difference to plan.",
	"The south has two separate effects that happen to point in the same direction. First, it won 18 percent more new customers than in the quarter before, and new customers " +
		"begin with small orders: their first order is on average a third of that of an existing customer. That pulls the average down without being a bad sign.\n\n" +
		"Second, returns rose by nine percent, nearly all of them in July and nearly all of them of one product line, which was delivered with a wrong adapter. The supplier has " +
		"replaced it in the first week of August, and since then returns are back to where they were in spring.\n\nTaken together: about two thirds of the gap are new customers and will " +
		"close by themselves as they order again; one third was the adapter and is over.",
	"For the board:\n\n- Revenue in the third quarter was 4.54 million, 3.1 percent more than in the second and 0.9 percent below plan.\n- The south won 18 percent more new customers; " +
		"their small first orders explain most of its decline of 2.3 percent.\n- Returns rose by nine percent because of a wrong adapter. The cause was removed in August, and the rate is " +
		"normal again.\n\nThe table for the appendix lists revenue, change and new customers by region, and marks the overseas figures as preliminary. I have stored it beside this " +
		"conversation, so that you can attach it to the minutes without copying anything by hand.",
}
