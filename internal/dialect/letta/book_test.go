package letta

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// secret is what must be found nowhere once it was deleted.
const secret = "xk7-the-marmot-sleeps-at-noon-q9"

// holders are the files of the data folder that hold the secret.
func (w *world) holders() (list []string) {
	w.t.Helper()
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
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

// secretive makes an agent that has the secret wherever text can be, and returns
// its id and that of a conversation.
func (w *world) secretive() (agent, conversation string) {
	w.t.Helper()
	agent = w.agent(`{"name":"` + secret + `","system":"` + secret + `","description":"` + secret + `","memory_blocks":[{"label":"human","value":"` + secret + `"}]}`)
	get[object](w, "PATCH", "/v1/agents/"+agent, `{"system":"now `+secret+`"}`)
	conversation = get[object](w, "POST", "/v1/conversations/?agent_id="+agent, `{"summary":"`+secret+`"}`)["id"].(string)
	w.say(agent, "hello "+secret)
	return agent, conversation
}

func TestWhatIsDeletedIsInNoFile(t *testing.T) {
	t.Parallel()
	p := newPhone()
	w := newWorld(t, setup{change: p.setup})
	other := w.agent(`{"name":"stays","system":"Be kind."}`)
	a, conv := w.secretive()
	run := get[object](w, "POST", "/v1/agents/"+a+"/messages/async", message("x", `,"callback_url":"https://example.com/`+secret+`"`))["id"].(string)
	told(w, run)
	who := get[object](w, "POST", "/v1/identities/", `{"identifier_key":"`+secret+`","name":"`+secret+`","identity_type":"user"}`)["id"].(string)
	group := get[object](w, "POST", "/v1/groups/", `{"agent_ids":["`+a+`"],"description":"`+secret+`"}`)["id"].(string)
	if w = w.restart(); len(w.holders()) == 0 {
		t.Fatal("a secret that cannot be found proves nothing")
	}
	for _, path := range []string{"/v1/conversations/" + conv, "/v1/agents/" + a, "/v1/identities/" + who, "/v1/groups/" + group} {
		if code, body := w.do("DELETE", path, ""); code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, code, body)
		}
		if code, body := w.do("GET", path, ""); code != http.StatusNotFound && code != http.StatusGone {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if left := w.holders(); len(left) > 0 {
		t.Errorf("the secret is still in %v", left)
	}
	w = w.restart()
	if list := get[[]object](w, "GET", "/v1/agents/", ""); len(list) != 1 || list[0]["id"] != other || list[0]["system"] != "Be kind." {
		t.Errorf("what stays: %v", list)
	}
}

// Who erases the session of an agent by another dialect wants the agent gone.
func TestAnErasedSessionTakesItsRecordAlong(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("running=%t", running), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setup{deaf: !running})
			a, conv := w.secretive()
			if _, err := w.sessions.Erase(t.Context(), owner, chat.SessionID(a)); err != nil {
				t.Fatal(err)
			}
			if !running {
				w = w.restart()
				get[[]object](w, "GET", "/v1/agents/", "")
			} else {
				w.await(t, "sys-letta-book", func(e *entry) bool { return e.ID == a && e.Gone == goneNow })
			}
			if left := w.holders(); len(left) > 0 {
				t.Errorf("the secret is still in %v", left)
			}
			if code, _ := w.do("GET", "/v1/conversations/"+conv, ""); code != http.StatusNotFound && code != http.StatusGone {
				t.Errorf("its conversation: %d", code)
			}
		})
	}
}

// await waits for an entry of the contents.
func (w *world) await(t *testing.T, id chat.SessionID, fits func(*entry) bool) {
	t.Helper()
	for batch, err := range w.sessions.Watch(t.Context(), chat.Trusted, id, chat.Start{Cursor: &chat.Cursor{}}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range batch.Entries {
			e, err := batch.Entries[i].Fact.Event()
			if err != nil {
				t.Fatal(err)
			}
			u, _ := e.Body.(chat.Unknown)
			var v entry
			if json.Unmarshal(u.Payload, &v) == nil && fits(&v) {
				return
			}
		}
	}
}

// cutter lets so many writes through and then none, as if the process had died
// there.
type cutter struct {
	sessions
	left  atomic.Int64
	blind atomic.Int64 // so many readings fail
}

var errCut = chat.Errorf(chat.Unavailable, "cut")

func (c *cutter) cut() bool { return c.left.Add(-1) < 0 }

func (c *cutter) Read(ctx context.Context, by chat.Caller, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error) {
	if strings.HasPrefix(string(id), "sys-letta-agent-") && c.blind.Add(-1) >= 0 {
		return nil, false, errCut
	}
	return c.sessions.Read(ctx, by, id, r)
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

// cuttable is a world whose writes can be cut off.
func cuttable(t *testing.T) (*world, *cutter) {
	c := &cutter{}
	c.left.Store(1 << 40)
	first := true
	return newWorld(t, setup{change: func(o *Options) {
		if first { // what is started after it is whole
			c.sessions, o.Sessions, first = o.Sessions, c, false
		}
	}}), c
}

// Whatever step of a deletion the process dies at, the agent is there, or it is
// gone from every file.
func TestDeletingIsCutBetweenTheSteps(t *testing.T) {
	t.Parallel()
	there, without := 0, 0
	for n := int64(0); ; n++ {
		w, c := cuttable(t)
		a, conv := w.secretive()
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
		switch left := w.holders(); {
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
func TestDeletingIsAskedForAgain(t *testing.T) {
	t.Parallel()
	w, c := cuttable(t)
	a, _ := w.secretive()
	c.left.Store(3)
	if code, body := w.do("DELETE", "/v1/agents/"+a, ""); code != http.StatusServiceUnavailable {
		t.Fatalf("%d %s", code, body)
	}
	if code, body := w.do("GET", "/v1/agents/"+a, ""); code != http.StatusNotFound {
		t.Errorf("it is still seen: %d %s", code, body)
	}
	c.left.Store(1 << 40)
	if code, body := w.do("DELETE", "/v1/agents/"+a, ""); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	if left := w.holders(); len(left) > 0 {
		t.Errorf("the secret is still in %v", left)
	}
}

// An agent whose making was cut off is there and whole, or it is not there.
func TestMakingIsCutBetweenTheSteps(t *testing.T) {
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
		b, err := w.dialect.bookOf(t.Context(), owner)
		if err != nil || len(b.pages) != len(list) {
			t.Errorf("cut at %d: %d pages of %d agents, %v", n, len(b.pages), len(list), err)
		}
		if next := w.agent(""); next == "" {
			t.Errorf("cut at %d: no agent can be made", n)
		}
	}
}

// A page that cannot be read for once is neither forgotten nor taken for empty.
func TestAPageThatCannotBeReadIsReadLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
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

// Each workspace has a book of its own, and all are opened at the start: what was
// being deleted in one that nobody uses any more is finished too.
func TestBooksOfOtherWorkspacesAreOpenedAtTheStart(t *testing.T) {
	t.Parallel()
	w, c := cuttable(t)
	elsewhere := owner
	elsewhere.Workspace = "elsewhere"
	b, err := w.dialect.bookOf(t.Context(), elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.add(t.Context(), record{Kind: kindIdentity, ID: "identity-" + newUUID(), Owner: owner.Actor, Fields: map[string]json.RawMessage{"name": quote(secret)}})
	if err != nil {
		t.Fatal(err)
	}
	c.left.Store(1)
	if err := b.remove(t.Context(), r.ID); err == nil {
		t.Fatal("it was not cut")
	}
	w = w.restart()
	w.await(t, "sys-letta-book.elsewhere", func(e *entry) bool { return e.ID == r.ID && e.Gone == goneNow })
	if left := w.holders(); len(left) > 0 {
		t.Errorf("the secret is still in %v", left)
	}
}
