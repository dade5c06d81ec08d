package vertesia

import (
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
)

// TestWireSize measures what a session takes on the wire: thinking, tools, a plan,
// answers that stream as a model would write them, parallel work. The older form
// is that of applications, AgentMessage, as it was sent before there was another:
// one message per event of the stream, not compressed.
func TestWireSize(t *testing.T) {
	w := newWorld(t, setup{})
	id := w.start("/think The person wants to know how the quarter went. I should look at the numbers first.", true)
	plain, z := w.stream(id, ""), w.stream(id, "", "Accept-Encoding", "gzip")
	raw := &counting{r: z.body}
	unzip, err := gzip.NewReader(raw)
	if err != nil {
		t.Fatal(err)
	}
	z.in.Reset(unzip)
	plain.until(is(Idle))
	for i, task := range []string{
		`/plan 4`, `/tool search {"query":"revenue by quarter, all regions","limit":20}`, `/stream 150 150`, `/artifact table`,
		`/tool query {"sql":"select region, sum(amount) from sales where quarter = 3 group by region order by 2 desc"}`, `/stream 250 150`, `/usage 12000 900`, `/work 2 2`, `/stream 100 150`,
	} {
		w.signal(id, "UserInput", fmt.Sprintf(`{"message":%q,"client_message_id":"c-%d"}`, task, i))
		plain.until(is(Idle))
	}
	last := plain.seen[len(plain.seen)-1].TS
	z.until(func(m CompactMessage) bool { return m.TS >= last })
	older, chunks, olderChunks, compactChunks := 0, 0, 0, 0
	for _, m := range plain.seen {
		b, err := marshal(ToAgentMessage(m, id))
		if err != nil {
			t.Fatal(err)
		}
		n := len("data: \n\n") + len(b)
		older += n
		if isChunk(m) {
			c, _ := marshal(m)
			chunks, olderChunks, compactChunks = chunks+1, olderChunks+n, compactChunks+len("data: \n\n")+len(c)
		}
	}
	_, whole, h := w.call("GET", "/api/v1/agents/"+id+"/updates", "", "Accept-Encoding", "gzip")
	less := func(n, of int) string {
		return fmt.Sprintf("%7d bytes, %4.1f %% less", n, 100-100*float64(n)/float64(of))
	}
	olderHistory := 0
	for _, m := range stored(plain.seen) {
		b, _ := marshal(ToAgentMessage(m, id))
		olderHistory += len(b) + 1
	}
	t.Logf("\n%d messages, %d of them chunks\nstream, older form            %7d bytes\nstream, compact               %s\nstream, compact and gzip      %s\nchunks alone, compact         %s\nhistory, older form           %7d bytes\nhistory, compact and gzip     %s",
		len(plain.seen), chunks, older, less(plain.raw.Len(), older), less(raw.n, older), less(compactChunks, olderChunks), olderHistory, less(len(whole), olderHistory))
	if h.Get("Content-Encoding") != "gzip" || len(whole)*5 > olderHistory {
		t.Errorf("history takes %d bytes of %d: that is not 80 %% less", len(whole), olderHistory)
	}
	if raw.n*4 > older { // how much less depends on how the chunks are cut
		t.Errorf("a stream takes %d bytes of %d", raw.n, older)
	}
	if strings.Contains(plain.raw.String(), `"workflow_run_id"`) {
		t.Error("the stream is not in the compact form")
	}
}
