package letta

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/record"
)

// secret is a text that must be in no file once it was deleted.
const secret = "xk7-the-marmot-sleeps-at-noon-q9"

// filesWithSecret returns the files of the data folder that have the secret.
func (w *testServer) filesWithSecret() (list []string) {
	w.t.Helper()
	err := filepath.WalkDir(w.Dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) || err == nil && d.IsDir() {
			return nil
		}
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if bytes.Contains(b, []byte(secret)) {
			list = append(list, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// agentWithSecret makes an agent that has the secret wherever text can be, and returns its id and that of a conversation.
func (w *testServer) agentWithSecret() (agent, conversation string) {
	w.t.Helper()
	agent = w.agent(`{"name":"` + secret + `","system":"` + secret + `","description":"` + secret + `","memory_blocks":[{"label":"human","value":"` + secret + `"}]}`)
	get[object](w, "PATCH", "/v1/agents/"+agent, `{"system":"now `+secret+`"}`)
	conversation = get[object](w, "POST", "/v1/conversations/?agent_id="+agent, `{"summary":"`+secret+`"}`)["id"].(string)
	w.say(agent, "hello "+secret)
	return agent, conversation
}

func TestDeletedRecordsAreInNoFile(t *testing.T) {
	t.Parallel()
	p := newReceiver()
	w := newTestServer(t, setup{change: p.setup})
	other := w.agent(`{"name":"stays","system":"Be kind."}`)
	a, conv := w.agentWithSecret()
	run := get[object](w, "POST", "/v1/agents/"+a+"/messages/async", message("x", `,"callback_url":"https://example.com/`+secret+`"`))["id"].(string)
	awaitCallback(w, run)
	who := get[object](w, "POST", "/v1/identities/", `{"identifier_key":"`+secret+`","name":"`+secret+`","identity_type":"user"}`)["id"].(string)
	group := get[object](w, "POST", "/v1/groups/", `{"agent_ids":["`+a+`"],"description":"`+secret+`"}`)["id"].(string)
	if w = w.restart(); len(w.filesWithSecret()) == 0 {
		t.Fatal("the test cannot find the secret")
	}
	for _, path := range []string{"/v1/conversations/" + conv, "/v1/agents/" + a, "/v1/identities/" + who, "/v1/groups/" + group} {
		if code, body := w.do("DELETE", path, ""); code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, code, body)
		}
		if code, body := w.do("GET", path, ""); code != http.StatusNotFound && code != http.StatusGone {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if left := w.filesWithSecret(); len(left) > 0 {
		t.Errorf("the secret is still in %v", left)
	}
	w = w.restart()
	if list := get[[]object](w, "GET", "/v1/agents/", ""); len(list) != 1 || list[0]["id"] != other || list[0]["system"] != "Be kind." {
		t.Errorf("what stays: %v", list)
	}
}

// Erasing the session of an agent by another dialect deletes the agent.
func TestAnErasedSessionDeletesItsAgent(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("running=%t", running), func(t *testing.T) {
			t.Parallel()
			w := newTestServer(t, setup{ignoresErased: !running})
			a, conv := w.agentWithSecret()
			if _, err := w.Sessions.Erase(t.Context(), owner, chat.SessionID(a)); err != nil {
				t.Fatal(err)
			}
			if !running {
				w = w.restart()
				get[[]object](w, "GET", "/v1/agents/", "")
			} else {
				w.awaitDeleted(t, "sys-letta-book", a)
			}
			if left := w.filesWithSecret(); len(left) > 0 {
				t.Errorf("the secret is still in %v", left)
			}
			if code, _ := w.do("GET", "/v1/conversations/"+conv, ""); code != http.StatusNotFound && code != http.StatusGone {
				t.Errorf("its conversation: %d", code)
			}
		})
	}
}

// awaitDeleted waits until the index session of a workspace says that a record was deleted.
func (w *testServer) awaitDeleted(t *testing.T, id chat.SessionID, record string) {
	t.Helper()
	for batch, err := range w.Sessions.Watch(t.Context(), chat.Trusted, id, core.Start{Cursor: &chat.Cursor{}}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range batch.Entries {
			e, err := batch.Entries[i].Fact.Event()
			if err != nil {
				t.Fatal(err)
			}
			var v struct{ ID, Gone string }
			if json.Unmarshal(e.Payload, &v) == nil && v.ID == record && v.Gone == "gone" {
				return
			}
		}
	}
}

// cutter does so many writes and then none, as if the process had been killed.
type cutter struct {
	sessions
	left  atomic.Int64
	blind atomic.Int64 // so many reads of records fail
}

var errCut = chat.Errorf(chat.Unavailable, "cut")

func (c *cutter) cut() bool { return c.left.Add(-1) < 0 }

func (c *cutter) Events(ctx context.Context, by chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Event, error] {
	if strings.HasPrefix(string(id), "sys-letta-agent-") && c.blind.Add(-1) >= 0 {
		return func(yield func(chat.Event, error) bool) { yield(chat.Event{}, errCut) }
	}
	return c.sessions.Events(ctx, by, id, r)
}

func (c *cutter) Create(ctx context.Context, by chat.Caller, n chat.NewSession) (chat.Session, bool, error) {
	if c.cut() {
		return chat.Session{}, false, errCut
	}
	return c.sessions.Create(ctx, by, n)
}

func (c *cutter) Append(ctx context.Context, by chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error) {
	if c.cut() {
		return nil, errCut
	}
	return c.sessions.Append(ctx, by, id, drafts)
}

func (c *cutter) Erase(ctx context.Context, by chat.Caller, id chat.SessionID) (chat.Receipt, error) {
	if c.cut() {
		return chat.Receipt{}, errCut
	}
	return c.sessions.Erase(ctx, by, id)
}

// cuttable returns a server whose writes can be cut off.
func cuttable(t *testing.T) (*testServer, *cutter) {
	c := &cutter{}
	c.left.Store(1 << 40)
	first := true
	return newTestServer(t, setup{change: func(o *Options) {
		if first { // not after a restart
			c.sessions, o.Sessions, first = o.Sessions, c, false
		}
	}}), c
}

// When the process is killed at any step of a deletion, the agent is there or in no file.
func TestDeletingAnAgentIsCutAtEveryStep(t *testing.T) {
	t.Parallel()
	there, without := 0, 0
	for n := int64(0); ; n++ {
		w, c := cuttable(t)
		a, conv := w.agentWithSecret()
		c.left.Store(n)
		code, body := w.do("DELETE", "/v1/agents/"+a, "")
		if code == http.StatusOK {
			if n < 6 {
				t.Errorf("only %d writes", n)
			}
			break
		}
		if code != http.StatusServiceUnavailable {
			t.Fatalf("cut at %d: %d %s", n, code, body)
		}
		w = w.restart()
		code, _ = w.do("GET", "/v1/agents/"+a, "")
		list := get[[]object](w, "GET", "/v1/agents/", "")
		convs := get[[]object](w, "GET", "/v1/conversations/?agent_id="+a, "")
		switch left := w.filesWithSecret(); {
		case code == http.StatusOK && len(list) == 1 && len(convs) == 1 && convs[0]["id"] == conv:
			there++
		case len(list) == 0 && len(convs) == 0 && len(left) == 0:
			without++
		default:
			t.Errorf("cut at %d: %d, %d agents, %d conversations, the secret is in %v", n, code, len(list), len(convs), left)
		}
	}
	if there == 0 || without == 0 {
		t.Errorf("%d times there, %d times gone", there, without)
	}
}

// A deletion that could not be finished can be asked for again.
func TestAnUnfinishedDeletionIsRepeated(t *testing.T) {
	t.Parallel()
	w, c := cuttable(t)
	a, _ := w.agentWithSecret()
	c.left.Store(3)
	if code, body := w.do("DELETE", "/v1/agents/"+a, ""); code != http.StatusServiceUnavailable {
		t.Fatalf("%d %s", code, body)
	}
	if code, body := w.do("GET", "/v1/agents/"+a, ""); code != http.StatusNotFound {
		t.Errorf("it is still found: %d %s", code, body)
	}
	c.left.Store(1 << 40)
	if code, body := w.do("DELETE", "/v1/agents/"+a, ""); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	if left := w.filesWithSecret(); len(left) > 0 {
		t.Errorf("the secret is still in %v", left)
	}
}

// An agent whose creation was cut off is complete, or does not exist.
func TestCreatingAnAgentIsCutAtEveryStep(t *testing.T) {
	t.Parallel()
	for n := int64(0); ; n++ {
		w, c := cuttable(t)
		c.left.Store(n)
		code, body := w.do("POST", "/v1/agents/", `{"name":"ann","system":"Be kind."}`)
		if code == http.StatusOK {
			break
		}
		if code != http.StatusServiceUnavailable {
			t.Fatalf("cut at %d: %d %s", n, code, body)
		}
		w = w.restart()
		list := get[[]object](w, "GET", "/v1/agents/", "")
		for _, a := range list {
			if answer := w.say(a["id"].(string), "hello"); answer.text() != "You said: hello" || a["system"] != "Be kind." {
				t.Errorf("cut at %d: %v %+v", n, a, answer)
			}
		}
		if next := w.agent(""); next == "" {
			t.Errorf("cut at %d: no agent can be made", n)
		}
	}
}

// A record that cannot be read is read again by the next request; no agent is missing from a list.
func TestARecordThatCannotBeReadIsReadLater(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{})
	for range 3 {
		w.agent("")
	}
	c := &cutter{}
	c.left.Store(1 << 40)
	w.setup.change = func(o *Options) {
		c.sessions, o.Sessions = o.Sessions, c
		c.blind.Store(2)
	}
	w = w.restart()
	for {
		code, body := w.do("GET", "/v1/agents/", "")
		if code == http.StatusOK {
			if n := strings.Count(body, `"agent_type"`); n != 3 {
				t.Errorf("%d agents: %s", n, body)
			}
			return
		}
		if code != http.StatusServiceUnavailable {
			t.Fatalf("%d %s", code, body)
		}
	}
}

// A deletion in a workspace that has no more callers is finished at the start.
func TestDeletionsInAllWorkspacesAreFinishedAtTheStart(t *testing.T) {
	t.Parallel()
	w, c := cuttable(t)
	elsewhere := owner
	elsewhere.Workspace = "elsewhere"
	records, err := w.dialect.sets.In(t.Context(), elsewhere.In())
	if err != nil {
		t.Fatal(err)
	}
	r, err := records.Put(t.Context(), record.Record{Kind: kindIdentity, ID: "identity-" + newUUID(), Owner: owner.Actor, Fields: map[string]json.RawMessage{"name": quote(secret)}})
	if err != nil {
		t.Fatal(err)
	}
	c.left.Store(1)
	if err := records.Delete(t.Context(), r.ID); err == nil {
		t.Fatal("it was not cut")
	}
	w = w.restart()
	w.awaitDeleted(t, "sys-letta-book.elsewhere", r.ID)
	if left := w.filesWithSecret(); len(left) > 0 {
		t.Errorf("the secret is still in %v", left)
	}
}
