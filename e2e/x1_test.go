// Tests of x1 with the embedded NATS server.

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/sleep"
)

// connectNATS connects to a server's NATS.
func connectNATS(t *testing.T, addr string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	c, err := nats.Connect("nats://"+addr, append([]nats.Option{nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// archived returns the numbers and ids of a session's events in JetStream.
func archived(t *testing.T, c *nats.Conn, id string) (numbers []chat.Seq, ids []chat.EventID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.OrderedConsumer(ctx, x1.ArchiveStream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{x1.Subject(chat.SessionID(id), x1.Archive)}})
	if err != nil {
		t.Fatal(err)
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// The pending messages exist; each fetch returns some of them until the deadline.
	for left := int(info.NumPending); left > 0; {
		if ctx.Err() != nil {
			t.Fatalf("of %d events of %s in the archive %d could not be read in time", info.NumPending, id, left)
		}
		batch, err := consumer.FetchNoWait(min(left, 500))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			e, err := chat.ParseEvent(m.Data())
			if err != nil {
				t.Fatal(err)
			}
			numbers, ids, left = append(numbers, e.Seq), append(ids, e.ID), left-1
		}
		if err := batch.Error(); err != nil {
			t.Fatal(err)
		}
	}
	return numbers, ids
}

// TestX1ArchiveSurvivesKills kills the server repeatedly under load. The archive then has
// every stored event once and in order.
func TestX1ArchiveSurvivesKills(t *testing.T) {
	t.Parallel()
	data, addr, bus := t.TempDir(), freeport.Addr(t), freeport.Addr(t)
	p := serveAt(t, addr, data, "--nats", bus)
	const sessions = 4
	for i := range sessions {
		p.post("/parley/v1/sessions", fmt.Sprintf(`{"id":"k%d","agent":"none"}`, i))
	}
	viewer := connectNATS(t, bus)
	var seen sync.Map // session to the last number that a viewer saw
	var disorder atomic.Int64
	if _, err := viewer.Subscribe("x1.session.*.events", func(m *nats.Msg) {
		e, err := chat.ParseEvent(m.Data)
		if err != nil {
			disorder.Add(1)
			return
		}
		if last, ok := seen.Swap(e.Session, e.Seq); ok && last.(chat.Seq) > e.Seq+300 {
			disorder.Add(1) // after a kill recent events may be repeated
		}
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: sessions}, Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for i := range sessions {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				body := fmt.Sprintf(`{"type":"agent.status","payload":{"message":"%d"},"client_id":"c%d"}`, n, n)
				for ctx.Err() == nil {
					r, err := http.NewRequestWithContext(ctx, "POST", fmt.Sprintf("http://%s/parley/v1/sessions/k%d/events", addr, i), strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					r.Header.Set("Content-Type", "application/json")
					res, err := client.Do(r)
					if err == nil {
						res.Body.Close()
						if res.StatusCode == http.StatusCreated {
							break
						}
					}
					sleep.For(ctx, 10*time.Millisecond)
				}
				sleep.For(ctx, time.Millisecond)
			}
		})
	}
	for range 5 {
		sleep.For(t.Context(), time.Duration(50+rand.IntN(250))*time.Millisecond)
		p.kill()
		p = serveAt(t, addr, data, "--nats", bus)
	}
	sleep.For(t.Context(), 100*time.Millisecond)
	stop()
	wg.Wait()
	for i := range sessions {
		id := fmt.Sprintf("k%d", i)
		var record chat.Session
		var numbers []chat.Seq
		for end := time.Now().Add(60 * time.Second); ; {
			// A cancelled request may still be stored, so the record is read each time.
			if err := json.Unmarshal([]byte(p.get("/parley/v1/sessions/"+id)), &record); err != nil {
				t.Fatal(err)
			}
			if numbers, _ = archived(t, viewer, id); len(numbers) == int(record.Last) || time.Now().After(end) {
				break
			}
			sleep.For(t.Context(), 20*time.Millisecond)
		}
		if len(numbers) != int(record.Last) {
			t.Fatalf("%s: the archive has %d of %d events", id, len(numbers), record.Last)
		}
		for k, n := range numbers {
			if n != chat.Seq(k+1) {
				t.Fatalf("%s: event %d has number %d", id, k+1, n)
			}
		}
	}
	if n := disorder.Load(); n > 0 {
		t.Errorf("%d messages were not events in order", n)
	}
}

// TestNATSMessageIsAnsweredNatively: a message on NATS is answered and appears in the
// native log; the server then ends with code 0.
func TestNATSMessageIsAnsweredNatively(t *testing.T) {
	t.Parallel()
	bus := freeport.Addr(t)
	p := serve(t, t.TempDir(), "--nats", bus, "--summary", "plain")
	if !strings.Contains(p.out.String(), "nats://"+bus) {
		t.Fatalf("the output has no NATS address: %s", p.out)
	}
	c := connectNATS(t, bus)
	m, err := c.Request("x1.session.both.input", []byte(`{"session_id":"both","type":"user.message","payload":{"text":"hello"}}`), 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var reply x1.Reply
	if err := json.Unmarshal(m.Data, &reply); err != nil || reply.Sequence != 2 {
		t.Fatalf("%s %v", m.Data, err)
	}
	for end := time.Now().Add(30 * time.Second); !strings.Contains(p.get("/parley/v1/sessions/both/events"), "You said: hello"); {
		if time.Now().After(end) {
			t.Fatal("it was not answered")
		}
		sleep.For(t.Context(), 10*time.Millisecond)
	}
	if code := p.terminate(); code != 0 {
		t.Fatalf("it ended with %d", code)
	}
}

// TestX1RefusesToStart: a wrong or used NATS address ends the program with a message.
func TestX1RefusesToStart(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	expectExit(t, 1, []string{taken, "in use", "--nats off"}, "serve", "--addr", "127.0.0.1:0", "--data", t.TempDir(), "--nats", taken)
	expectExit(t, 1, []string{"0.0.0.0:0", "--nats", "authentication"}, "serve", "--addr", "127.0.0.1:0", "--data", t.TempDir(), "--nats", "0.0.0.0:0")
	expectExit(t, 1, []string{"127.0.0.1:x", "--nats"}, "serve", "--addr", "127.0.0.1:0", "--data", t.TempDir(), "--token", "a-token-of-this-test", "--nats", "127.0.0.1:x")
}

// TestX1WithATokenNeedsCredentials: with authentication NATS refuses connections without
// a credential.
func TestX1WithATokenNeedsCredentials(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-this-very-test"
	bus := freeport.Addr(t)
	p := serve(t, t.TempDir(), "--nats", bus, "--token", token)
	if c, err := nats.Connect("nats://"+bus, nats.Timeout(30*time.Second)); !errors.Is(err, nats.ErrAuthorization) {
		if err == nil {
			c.Close()
		}
		t.Fatalf("a connection without a credential: %v", err)
	}
	connectNATS(t, bus, nats.Token(token))
	p.must(call{method: "POST", path: "/parley/v1/sessions", token: token, body: `{"id":"s1","agent":"none"}`})
	var cred x1.Credential
	if err := json.Unmarshal([]byte(p.must(call{method: "POST", path: "/parley/v1/sessions/s1/credentials", token: token, body: `{}`})), &cred); err != nil {
		t.Fatal(err)
	}
	c, err := nats.Connect(cred.URL, nats.UserInfo(cred.User, cred.Password), nats.CustomInboxPrefix(cred.InboxPrefix), nats.Timeout(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Request("x1.session.s1.history", nil, 20*time.Second); err != nil {
		t.Fatal(err)
	}
}

// credentialOf returns the options to connect with a credential. Errors of the server
// are sent to the channel.
func credentialOf(cred x1.Credential, refused chan<- error) []nats.Option {
	return []nats.Option{
		nats.Timeout(30 * time.Second),
		nats.UserInfo(cred.User, cred.Password), nats.CustomInboxPrefix(cred.InboxPrefix), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }),
	}
}

// denied waits for a refusal. The server sends it before the answer to a flush, but
// another goroutine of the client delivers it.
func denied(refused <-chan error) error {
	select {
	case err := <-refused:
		return err
	case <-time.After(20 * time.Second):
		return nil
	}
}
