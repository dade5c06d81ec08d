package vertesia

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

func TestRetentionErasesOnlyOldRuns(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	w := newServer(t, setup{change: func(o *Options) { o.Now = clock }})
	old := w.start("old", false)
	w.stream(old, "").until(is(Complete))
	waits := w.start("/ask text", false)
	w.stream(waits, "").until(is(RequestInput))
	foreign, _, err := w.Sessions.Create(t.Context(), chat.Trusted, chat.NewSession{Agent: "none"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.dialect.change(t.Context(), chat.Trusted, foreign.ID, map[string]any{"model": "m"}, nil); err != nil {
		t.Fatal(err)
	}
	elsewhere := chat.Trusted
	elsewhere.Workspace = "acme"
	far, _, err := w.Sessions.Create(t.Context(), elsewhere, chat.NewSession{Agent: "none", Metadata: []byte(`{"vertesia":{"interaction":"x"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.dialect.expire(t.Context()); n != 0 || err != nil {
		t.Fatalf("without a retention %d runs go (%v)", n, err)
	}
	opt := w.dialect.opt
	opt.Retention = 24 * time.Hour
	keeper := New(opt)
	if n, err := keeper.expire(t.Context()); n != 0 || err != nil {
		t.Fatalf("%d runs go too early (%v)", n, err)
	}
	mu.Lock()
	now = now.Add(25 * time.Hour)
	mu.Unlock()
	if n, err := keeper.expire(t.Context()); n != 2 || err != nil {
		t.Fatalf("%d runs go (%v), want 2", n, err)
	}
	if _, err := w.Sessions.Get(t.Context(), elsewhere, far.ID); chat.CodeOf(err) != chat.Gone {
		t.Errorf("the run of another workspace: %v", err)
	}
	if code, _, _ := w.Call("GET", "/api/v1/agents/"+old, ""); code != http.StatusGone {
		t.Errorf("the old run answers %d", code)
	}
	for _, id := range []string{waits, string(foreign.ID)} {
		if code, _, _ := w.Call("GET", "/api/v1/agents/"+id, ""); code != http.StatusOK {
			t.Errorf("%s answers %d", id, code)
		}
	}
}

// A run that is not interactive is complete when its last workstream has ended, also
// without a reader, and only once with many readers.
func TestRunThatIsNotInteractiveEnds(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("hello", false)
	s := w.stream(id, "")
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() { w.stream(id, "").until(is(Complete)) })
	}
	s.until(is(Complete))
	readers.Wait()
	if ends := texts(w.updates(id, ""), Complete); len(ends) != 1 {
		t.Errorf("it ends %d times", len(ends))
	}
	// This run has no stream.
	hidden := w.start("hello", false)
	for b, err := range w.Sessions.Watch(t.Context(), chat.Trusted, chat.SessionID(hidden), core.Start{Cursor: &chat.Cursor{}}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(b.Entries, func(e core.Entry) bool { return e.Label.Type == "turn.completed" }) {
			break
		}
	}
	var run struct{ Status string }
	if w.ok("GET", "/api/v1/agents/"+hidden, "", &run); run.Status != "completed" {
		t.Errorf("it is %s", run.Status)
	}
}

func TestFirstMessage(t *testing.T) {
	for data, want := range map[string]string{
		`{"user_prompt":"a","task":"b"}`: "a", `{"task":"b","other":"c"}`: "b", `{"question":"c","n":1}`: "c", `"plain"`: "plain",
		`{"a":"x","b":"y"}`: `{"a":"x","b":"y"}`, `{}`: "", ``: "", `null`: "", `{"n":1}`: `{"n":1}`,
	} {
		if got := firstMessage(json.RawMessage(data)); got != want {
			t.Errorf("%s: %q, want %q", data, got, want)
		}
	}
}

func TestUnknownInteractionUsesTheDefaultAgent(t *testing.T) {
	w := newServer(t, setup{})
	var run struct{ ID, Interaction string }
	w.ok("POST", "/api/v1/agents", `{"interaction":"sys:generic question","data":{"task":"hello"},"interactive":false}`, &run)
	if run.Interaction != "sys:generic question" {
		t.Errorf("the run is of %q", run.Interaction)
	}
	s := w.stream(run.ID, "")
	s.until(is(Complete))
	if got := texts(s.seen, Answer); !slices.Equal(got, []string{"You said: hello"}) {
		t.Errorf("%q", got)
	}
}

func TestStreamsTakeATokenInTheAddress(t *testing.T) {
	w := newServer(t, setup{secured: true})
	var issued struct{ Token string }
	w.ok("POST", "/token/issue", "", &issued, "Authorization", "Bearer "+keyOf("alice"))
	id := w.start("hello", true, "Authorization", "Bearer "+issued.Token)
	w.stream(id, "?access_token="+issued.Token).until(is(Idle))
	w.stream(id, "", "Authorization", "Bearer "+keyOf("alice")).until(is(Idle))
	for _, bad := range []string{"", "?access_token=x", "?access_token=" + keyOf("bob")} {
		if code, _, _ := w.Call("GET", "/api/v1/agents/"+id+"/stream"+bad, ""); code != http.StatusUnauthorized && code != http.StatusNotFound {
			t.Errorf("%q: %d", bad, code)
		}
	}
	// Other addresses refuse it.
	if code, _, _ := w.Call("GET", "/api/v1/agents/"+id+"/updates?access_token="+issued.Token, ""); code != http.StatusUnauthorized {
		t.Errorf("history by a token in the address: %d", code)
	}
}

func TestSignedAddresses(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	w := newServer(t, setup{secured: true, change: func(o *Options) {
		o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	}})
	alice := []string{"Authorization", "Bearer " + keyOf("alice")}
	id := w.start("hello", true, alice...)
	var put struct{ URL, Path string }
	w.ok("PUT", "/api/v1/agents/"+id+"/artifacts/files/a.bin", "", &put, alice...)
	if code, body, _ := w.Call("PUT", strings.Replace(put.URL, "a.bin", "b.bin", 1), "x"); code != http.StatusForbidden {
		t.Errorf("another path: %d %s", code, body)
	}
	w.ok("PUT", put.URL, "x", nil)
	w.ok("PUT", put.URL, "y", nil) // a retry
	var get struct{ URL, Path string }
	w.ok("GET", "/api/v1/agents/"+id+"/artifacts/files/a.bin?url=1", "", &get, alice...)
	if _, body, _ := w.Call("GET", get.URL, ""); body != "y" {
		t.Errorf("it holds %q", body)
	}
	if code, _, _ := w.Call("PUT", get.URL, "z"); code != http.StatusForbidden {
		t.Errorf("writing by an address for reading: %d", code)
	}
	// The spare bits of the last character count, too.
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
		changed := get.URL[:len(get.URL)-1] + string(c)
		if code, _, _ := w.Call("GET", changed, ""); (code == http.StatusOK) != (changed == get.URL) {
			t.Errorf("a signature that ends in %c: %d", c, code)
		}
	}
	mu.Lock()
	now = now.Add(15 * time.Minute)
	mu.Unlock()
	if code, body, _ := w.Call("GET", get.URL, ""); code != http.StatusForbidden || !strings.Contains(body, "expired") {
		t.Errorf("later: %d %s", code, body)
	}
}

// A viewer cannot change a file.
func TestViewerCannotChangeFiles(t *testing.T) {
	w := newServer(t, setup{secured: true})
	alice, bob := []string{"Authorization", "Bearer " + keyOf("alice")}, []string{"Authorization", "Bearer " + keyOf("bob")}
	id := w.start("hello", true, alice...)
	var put struct{ URL, Path string }
	w.ok("PUT", "/api/v1/agents/"+id+"/artifacts/files/a.txt", "", &put, alice...)
	w.ok("PUT", put.URL, "hers", nil)
	members := []chat.Member{{Actor: chat.Actor{Kind: chat.User, ID: "bob"}, Role: chat.Viewer}}
	if _, err := w.Sessions.Update(t.Context(), chat.Trusted, chat.SessionID(id), chat.SessionUpdated{Members: &members}); err != nil {
		t.Fatal(err)
	}
	var content struct{ Content, Generation string }
	w.ok("GET", "/api/v1/agents/"+id+"/artifact-content/files/a.txt", "", &content, bob...)
	for _, try := range [][3]string{
		{"PUT", "/artifacts/files/a.txt", ""}, {"PUT", "/artifacts/files/b.txt", `"x"`}, {"PUT", "/artifact-content/files/a.txt", `{"content":"his","generation":"` + content.Generation + `"}`},
		{"POST", "/signal/UserInput", `{"message":"x"}`}, {"POST", "/signal/Stop", `{}`}, {"DELETE", "", ""}, {"POST", "/restart", ""}, {"POST", "/status", `{"title":"x"}`},
	} {
		code, body, _ := w.Call(try[0], "/api/v1/agents/"+id+try[1], try[2], bob...)
		if code != http.StatusForbidden && !(try[1] == "/restart" && code == http.StatusOK) { // nothing to restart
			t.Errorf("%s %s: %d %s", try[0], try[1], code, body)
		}
	}
	if w.ok("GET", "/api/v1/agents/"+id+"/artifact-content/files/a.txt", "", &content, bob...); content.Content != "hers" {
		t.Errorf("it holds %q", content.Content)
	}
	var names []string
	if w.ok("GET", "/api/v1/agents/"+id+"/artifacts", "", &names, bob...); !slices.Equal(names, []string{"files/a.txt"}) {
		t.Errorf("%q", names)
	}
}

func TestWorkstreamCanBeStoppedAndSteered(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("/work 2 20", true)
	s := w.stream(id, "")
	s.until(func(m compactMessage) bool { return m.W == "w2" && strings.Contains(string(m.D), `"phase"`) })
	w.signal(id, "steer_workstream", `{"launch_id":"w1","command":"add_instruction","payload":"be brief","client_message_id":"st-1"}`)
	steered := s.until(func(m compactMessage) bool { return m.W == "w1" && strings.Contains(string(m.D), "add_instruction") })
	if !strings.Contains(string(steered.D), `"ack":"st-1"`) || steered.M != "be brief" {
		t.Errorf("%s %s", steered.M, steered.D)
	}
	w.signal(id, "terminate_workstream", `{"launch_id":"w2","reason":"enough"}`)
	s.until(func(m compactMessage) bool {
		return m.W == "w2" && strings.Contains(string(m.D), `"status":"canceled"`)
	})
	var active workstreamList
	w.ok("GET", "/api/v1/agents/"+id+"/query/ActiveWorkstreams", "", &active)
	if len(active.Running) != 1 || active.Running[0].Workstream != "w1" || len(active.Completed) != 1 || active.Completed[0].Status != "canceled" {
		t.Errorf("%+v", active)
	}
	w.ok("DELETE", "/api/v1/agents/"+id, "", nil)
	s.until(is(Terminated))
	for _, m := range s.seen {
		if m.T == Terminated && m.W != "" {
			t.Errorf("a child closes the run: %+v", m)
		}
	}
	if code, _, _ := w.Call("POST", "/api/v1/agents/"+id+"/signal/steer_workstream", `{"command":"x"}`); code != http.StatusBadRequest {
		t.Errorf("without a launch_id: %d", code)
	}
	if code, _, _ := w.Call("GET", "/api/v1/agents/"+id+"~nobody/updates", ""); code != http.StatusNotFound {
		t.Errorf("an unknown child: %d", code)
	}
}

// A run that is not interactive ends with its stopped turn, and a request that
// terminates it then does not end it again.
func TestTerminatedRunEndsOnce(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("/stream 100000 200", false)
	s := w.stream(id, "")
	s.until(isChunk)
	run, err := w.dialect.findRun(t.Context(), chat.Trusted, id)
	if err != nil {
		t.Fatal(err)
	}
	// The session ends the run once the turn was stopped.
	if _, err := w.Sessions.StopAll(t.Context(), chat.Trusted, run.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	s.until(is(Terminated))
	if err := w.dialect.terminate(t.Context(), chat.Trusted, run, "enough"); err != nil {
		t.Fatal(err)
	}
	w.ok("DELETE", "/api/v1/agents/"+id, "", nil)
	if ends := texts(w.updates(id, ""), Terminated); len(ends) != 1 {
		t.Errorf("it ended %d times: %q", len(ends), ends)
	}
	var now agentRun
	if w.ok("GET", "/api/v1/agents/"+id, "", &now); now.Status != runCancelled {
		t.Errorf("it is %s", now.Status)
	}
}

// A run that is not interactive is listed as ended, also when it had no reader.
func TestRunsWithoutReadersAreListedAsEnded(t *testing.T) {
	w := newServer(t, setup{})
	want := map[string]string{w.start("one", false): runCompleted, w.start("/fail two", false): runFailed, w.start("three", true): runRunning}
	for id := range want {
		w.rests(id)
	}
	for range 2 { // a list changes nothing
		var page struct{ Items []agentRun }
		w.ok("GET", "/api/v1/agents", "", &page)
		for _, it := range page.Items {
			if it.Status != want[it.ID] || (it.CompletedAt != nil) != (it.Status != runRunning) {
				t.Errorf("%s is listed as %s, want %s", it.ID, it.Status, want[it.ID])
			}
		}
		for _, status := range []string{runCompleted, runFailed, runRunning} {
			if w.ok("GET", "/api/v1/agents?status="+status, "", &page); len(page.Items) != 1 || want[page.Items[0].ID] != status {
				t.Errorf("%s are %+v", status, page.Items)
			}
		}
		var hits struct{ Hits []searchHit }
		if w.ok("GET", "/api/v1/agents/search?status=completed", "", &hits); len(hits.Hits) != 1 {
			t.Errorf("%+v", hits)
		}
		var old struct{ Runs []workflowRun }
		if w.ok("POST", "/api/v1/workflows/runs", `{"status":"FAILED"}`, &old); len(old.Runs) != 1 || old.Runs[0].Status != "FAILED" {
			t.Errorf("%+v", old)
		}
	}
}

func TestLists(t *testing.T) {
	w := newServer(t, setup{})
	var ids []string
	for _, task := range []string{"one", "/fail two", "three"} {
		id := w.start(task, false)
		w.stream(id, "").until(func(m compactMessage) bool { return m.T == Complete || m.T == Terminated })
		ids = append(ids, id)
	}
	begun := slices.Clone(ids)
	var page struct {
		Items []struct{ ID, Status string }
		Total int     `json:"total_count"`
		Next  *string `json:"next_cursor"`
	}
	w.ok("GET", "/api/v1/agents?limit=2", "", &page)
	if len(page.Items) != 2 || page.Next == nil {
		t.Fatalf("%+v", page)
	}
	got := []string{page.Items[0].ID, page.Items[1].ID}
	w.ok("GET", "/api/v1/agents/?limit=2&cursor="+*page.Next, "", &page)
	for _, it := range page.Items {
		got = append(got, it.ID)
	}
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		t.Errorf("pages list %v, want %v", got, ids)
	}
	// For every filter and order the pages together have every run.
	all := func(query string) (got []string) {
		t.Helper()
		for cursor := ""; ; cursor = *page.Next {
			w.ok("GET", "/api/v1/agents?limit=1&"+query+"&cursor="+cursor, "", &page)
			for _, it := range page.Items {
				got = append(got, it.ID)
			}
			if page.Total != 3 {
				t.Errorf("%s: %d in all", query, page.Total)
			}
			if page.Next == nil {
				return got
			}
		}
	}
	if got := all("interaction=demo&sort=started_at&order=asc"); !slices.Equal(got, begun) {
		t.Errorf("the oldest first: %v, want %v", got, begun)
	}
	slices.Reverse(begun)
	if got := all("interaction=demo&sort=started_at"); !slices.Equal(got, begun) {
		t.Errorf("the newest first: %v, want %v", got, begun)
	}
	w.ok("GET", "/api/v1/agents?sort=started_at&offset=1&limit=1", "", &page)
	if len(page.Items) != 1 || page.Items[0].ID != begun[1] || page.Total != 3 {
		t.Errorf("%+v", page)
	}
	w.ok("GET", "/api/v1/agents?status=failed", "", &page)
	if len(page.Items) != 1 || page.Items[0].Status != "failed" {
		t.Errorf("%+v", page.Items)
	}
	w.ok("GET", "/api/v1/agents?run_kind=process", "", &page)
	if len(page.Items) != 0 {
		t.Errorf("%+v", page.Items)
	}
	for _, bad := range []string{"limit=x", "since=soon", "until=soon", "offset=-1", "cursor=x", "status=done", "status=failed,done", "sort=title", "sort=started_at:up", "order=up"} {
		name, _, _ := strings.Cut(bad, "=")
		for _, path := range []string{"/api/v1/agents?", "/api/v1/agents/search?"} {
			if code, got, _ := w.Call("GET", path+bad, ""); code != http.StatusBadRequest || !strings.Contains(string(got), name) {
				t.Errorf("%s%s: %d %s", path, bad, code, got)
			}
		}
	}
	// A search has the order behind its field.
	var found struct{ Hits []struct{ ID string } }
	for sort, want := range map[string]string{"started_at:asc": begun[2], "started_at:asc,updated_at:desc": begun[2], "started_at:desc": begun[0], "started_at": begun[0]} {
		w.ok("GET", "/api/v1/agents/search?limit=1&sort="+sort, "", &found)
		if len(found.Hits) != 1 || found.Hits[0].ID != want {
			t.Errorf("sort=%s: %+v, want %s", sort, found.Hits, want)
		}
	}
}
