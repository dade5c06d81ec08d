package aisdk

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/session"
)

// lateSessions refuses all answers, as for a prompt whose deadline has passed and whose end is not stored yet.
type lateSessions struct {
	*session.Sessions
	answers atomic.Int32
}

func (s *lateSessions) Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error) {
	for _, d := range drafts {
		if chat.AnswerOf(d.Body) != "" {
			s.answers.Add(1)
			return nil, chat.Errorf(chat.Conflict, "the time to answer is over").WithReason(chat.PromptEnded)
		}
	}
	return s.Sessions.Append(ctx, c, id, drafts)
}

func TestALateAnswerIsTriedOnce(t *testing.T) {
	s := newTestServer(t, nil)
	late := &lateSessions{Sessions: s.Sessions}
	s.dialect.Sessions = late
	asked := s.say("c1", "m1", "/approve deploy {}")
	request := asked.find(t, chunkToolAsk)
	part := fmt.Sprintf(`{"type":"dynamic-tool","toolName":"deploy","toolCallId":%q,"state":"approval-responded","input":{},"approval":{"id":%q,"approved":true}}`,
		request["toolCallId"], request["approvalId"])
	body := fmt.Sprintf(`{"id":"c1","messages":[{"id":%q,"role":"assistant","parts":[%s]}]}`, asked.id(t), part)
	rest := s.Send("POST", "/api/chat", body, s.header()...) // the response begins, and waits for the end of the prompt
	if n := late.answers.Load(); n != 1 {
		t.Errorf("the answer was tried %d times", n)
	}
	s.Call("POST", "/api/chat/c1/stop", "")
	if got := s.read(rest, 0); got.status != http.StatusOK || got.finish(t) != finishOther {
		t.Errorf("%d %s %v", got.status, got.text, got.chunks)
	}
}

// all sends the same request several times at once.
func (s *testServer) all(n int, body string) (got []response) {
	s.t.Helper()
	got = make([]response, n)
	var group sync.WaitGroup
	for i := range got {
		group.Go(func() { got[i] = s.post(body) })
	}
	group.Wait()
	return got
}

func (s *testServer) sessions() (n int) {
	s.t.Helper()
	for _, err := range s.Sessions.All(s.t.Context()) {
		if err != nil {
			s.t.Fatal(err)
		}
		n++
	}
	return n
}

func TestAnEditIsMadeOnce(t *testing.T) {
	for name, fields := range map[string]string{"of useChat": `"trigger":"submit-message","messageId":"m1"`, "of WorkflowChatTransport": `"n":1`} {
		t.Run(name, func(t *testing.T) {
			s := newTestServer(t, nil)
			s.say("c1", "m1", "/echo one")
			edit := fmt.Sprintf(`{"id":"c1",%s,"messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"/echo two"}]}]}`, fields)
			for i, got := range s.all(8, edit) {
				if got.words() != "two" {
					t.Errorf("%d: %d %s %v", i, got.status, got.text, got.chunks)
				}
			}
			if n := s.sessions(); n != 2 {
				t.Errorf("there are %d sessions", n)
			}
		})
	}
}

func TestAFirstMessageIsSentOnceByManyTabs(t *testing.T) {
	s := newTestServer(t, nil)
	all := s.all(8, userMessage("c1", "m1", "/echo hello"))
	for _, got := range all {
		if fmt.Sprint(got.chunks) != fmt.Sprint(all[0].chunks) || got.words() != "hello" {
			t.Errorf("%d %s %v", got.status, got.text, got.chunks)
		}
	}
	if n := len(s.Events("c1", "user.message")); n != 1 || s.sessions() != 1 {
		t.Errorf("%d messages in %d sessions", n, s.sessions())
	}
}

func TestAnEditLeavesTheRunningTurn(t *testing.T) {
	for name, request := range map[string]string{
		"edit":       `{"id":"c1","trigger":"submit-message","messageId":"m1","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"/echo two"}]}]}`,
		"regenerate": `{"id":"c1","trigger":"regenerate-message","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"x"}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestServer(t, nil)
			live := s.Send("POST", "/api/chat", userMessage("c1", "m1", "/stream 100000 50"), s.header()...)
			s.Until("c1", "turn.started", 1)
			next := s.Send("POST", "/api/chat", request, s.header()...)
			if old := s.read(live, 0); old.finish(t) != finishOther {
				t.Errorf("the first turn ends with %v", old.chunks[len(old.chunks)-1])
			}
			if got := s.read(next, 5); len(got.chunks) != 5 || got.chunks[0]["messageId"] == nil {
				t.Errorf("%d %s %v", got.status, got.text, got.chunks)
			}
			s.Call("POST", "/api/chat/c1/stop", "")
		})
	}
}

func TestAStopOfAnEndedRunStopsNothing(t *testing.T) {
	s := newTestServer(t, nil)
	ended := s.say("c1", "m1", "/echo one")
	live := s.Send("POST", "/api/chat", userMessage("c1", "m2", "/stream 100000 50"), s.header()...)
	s.Until("c1", "turn.started", 2)
	if _, body, _ := s.Call("POST", "/api/chat/"+ended.run+"/stop", ""); body != `{"stopped":false}` {
		t.Errorf("the ended run: %s", body)
	}
	if _, body, _ := s.Call("POST", "/api/chat/"+live.Header.Get("X-Workflow-Run-Id")+"/stop", ""); body != `{"stopped":true}` {
		t.Errorf("the running one: %s", body)
	}
	if got := s.read(live, 0); got.finish(t) != finishOther {
		t.Errorf("%v", got.chunks)
	}
}

// A negative index waits for a run that has not begun.
func TestTheEndOfARunThatHasNotBegun(t *testing.T) {
	s := newTestServer(t, nil)
	s.dialect.Heartbeat = time.Hour
	live := s.Send("POST", "/api/chat", userMessage("c1", "m1", "/stream 100000 50"), s.header()...)
	s.Until("c1", "turn.started", 1)
	waiting := s.Send("POST", "/api/chat", userMessage("c1", "m2", "/echo two"), s.header()...)
	run := waiting.Header.Get("X-Workflow-Run-Id")
	for _, path := range []string{run, live.Header.Get("X-Workflow-Run-Id") + ".7"} {
		res := s.Send("GET", "/api/chat/"+path+"/stream?startIndex=-3", "", s.header()...)
		if got := res.Header.Get("X-Workflow-Stream-Tail-Index"); res.StatusCode != http.StatusOK || got != "2" {
			t.Errorf("%s: %d, the tail is %q", path, res.StatusCode, got)
		}
		res.Body.Close()
	}
	s.Call("POST", "/api/chat/c1/stop", "")
	s.read(live, 0)
	if got := s.read(waiting, 0); got.words() != "two" {
		t.Errorf("%v", got.chunks)
	}
}
