package native

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/klauspost/compress/zstd"

	"github.com/parley-hq/parley/chat"
)

// frames reads an event stream.
type frames struct {
	t    testing.TB
	body *bufio.Reader
}

type frame struct{ event, id, data string }

func (f *frames) next() frame {
	f.t.Helper()
	var out frame
	for {
		line, err := f.body.ReadString('\n')
		if err != nil {
			f.t.Fatalf("the stream ended: %v (after %+v)", err, out)
		}
		switch k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); k {
		case "event":
			out.event = v
		case "id":
			out.id = v
		case "data":
			out.data = v
		case "":
			return out
		}
	}
}

// follow opens a stream, reads its hello and returns the frames.
func (w *testServer) follow(as, path string, client *http.Client, change func(*http.Request)) (*frames, *http.Response) {
	w.t.Helper()
	r := w.request(as, "GET", path, nil)
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	w.t.Cleanup(cancel)
	if change != nil {
		change(r)
	}
	res, err := client.Do(r.WithContext(ctx))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 {
		b, _ := io.ReadAll(res.Body)
		w.t.Fatalf("%d %s", res.StatusCode, b)
	}
	var body io.Reader = res.Body
	switch res.Header.Get("Content-Encoding") {
	case "gzip":
		z, err := gzip.NewReader(res.Body)
		if err != nil {
			w.t.Fatal(err)
		}
		body = z
	case "zstd":
		z, err := zstd.NewReader(res.Body, zstd.WithDecoderConcurrency(1))
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(z.Close)
		body = z
	}
	f := &frames{w.t, bufio.NewReader(body)}
	if hello := f.next(); hello.event != "hello" {
		w.t.Fatalf("first frame is %+v", hello)
	}
	return f, res
}

func (w *testServer) create(as, body string) {
	w.t.Helper()
	w.must(as, "POST", "/parley/v1/sessions", body)
}

func say(text string) string {
	b, _ := json.Marshal(map[string]any{"type": "user.message", "payload": map[string]any{"text": text}})
	return string(b)
}

// TestPreviewsArriveWhileTheBodyIsOpen: an agent keeps one request open for a
// whole answer, and readers see each piece at once.
func TestPreviewsArriveWhileTheBodyIsOpen(t *testing.T) {
	w := newTestServer(t, nil)
	w.create("root", `{"id":"s","agent":"none"}`)
	reader, _ := w.follow("root", "/parley/v1/sessions/s/stream", w.HTTP.Client(), nil)

	body, pen := io.Pipe()
	answered := make(chan string, 1)
	go func() {
		r := w.request("root", "POST", "/parley/v1/sessions/s/previews", body)
		r.Header.Set("Content-Type", "application/x-ndjson")
		res, err := w.HTTP.Client().Do(r)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		answered <- fmt.Sprintf("%d %s", res.StatusCode, b)
	}()
	for i, word := range []string{"one ", "two ", "three"} {
		fmt.Fprintf(pen, `{"block":"b","offset":%d,"text":%q}`+"\n", 4*i, word)
		if got := reader.next(); got.event != "preview" || !strings.Contains(got.data, word) {
			t.Fatalf("%d: %+v", i, got)
		}
	}
	pen.Close()
	if got := <-answered; got != `200 {"shown":3}` {
		t.Fatal(got)
	}
}

// TestPreviewErrorDoesNotWaitForTheBody: a refused preview is answered while the request
// body is still open.
func TestPreviewErrorDoesNotWaitForTheBody(t *testing.T) {
	w := newTestServer(t, nil)
	w.create("root", `{"id":"s","agent":"none"}`)
	body, pen := io.Pipe()
	defer pen.Close()
	go func() {
		_, _ = io.WriteString(pen, `{"block":"b","offset":0,"text":"a"}{"block":"b","offset":9,"text":"b"}`)
	}()
	res, err := w.HTTP.Client().Do(w.request("root", "POST", "/parley/v1/sessions/s/previews", body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	if res.StatusCode != 400 || !bytes.Contains(b, []byte(`"shown":1`)) {
		t.Fatalf("%d %s", res.StatusCode, b)
	}
}

// TestShutdownEndsConnectionsWithBye: streams and sockets get a bye frame, a long body is
// answered, and nothing takes the whole grace period.
func TestShutdownEndsConnectionsWithBye(t *testing.T) {
	w := newTestServer(t, nil)
	w.create("root", `{"id":"s","agent":"none"}`)
	plain, _ := w.follow("root", "/parley/v1/sessions/s/stream", w.HTTP.Client(), func(r *http.Request) { r.Header.Set("Accept-Encoding", "identity") })
	packed, _ := w.follow("root", "/parley/v1/sessions/s/stream", w.HTTP.Client(), func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") })
	framed, _ := w.follow("root", "/parley/v1/sessions/s/stream", w.HTTP.Client(), func(r *http.Request) { r.Header.Set("Accept-Encoding", "zstd") })
	conn := w.dial("root", "/parley/v1/ws")
	defer conn.CloseNow()
	worker := w.dial("clerk", "/parley/v1/agents/clerk/work")
	defer worker.CloseNow()
	if err := worker.Write(t.Context(), websocket.MessageText, []byte(`{"op":"ready","id":1}`)); err != nil {
		t.Fatal(err)
	}
	w.readFrame(worker)
	body, pen := io.Pipe()
	defer pen.Close()
	status := make(chan int, 1)
	go func() {
		res, err := w.HTTP.Client().Do(w.request("root", "POST", "/parley/v1/sessions/s/previews", body))
		if err != nil {
			status <- 0
			return
		}
		res.Body.Close()
		status <- res.StatusCode
	}()
	_, _ = io.WriteString(pen, `{"block":"b","offset":0,"text":"a"}`+"\n")
	plain.next()
	packed.next()
	framed.next()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { _ = w.Conns.Shutdown(ctx) }()
	for name, f := range map[string]*frames{"plain": plain, "gzip": packed, "zstd": framed} {
		if got := f.next(); got.event != "bye" || !strings.Contains(got.data, `"retry":true`) || !strings.Contains(got.data, `"unavailable"`) {
			t.Errorf("%s: %+v", name, got)
		}
		if _, err := f.body.ReadByte(); err != io.EOF {
			t.Errorf("%s: the stream does not end properly: %v", name, err)
		}
	}
	for name, c := range map[string]*websocket.Conn{"socket": conn, "worker": worker} {
		if got := w.readFrame(c); !strings.Contains(got, `"op":"bye"`) || !strings.Contains(got, `"retry":true`) {
			t.Errorf("%s: %s", name, got)
		}
		if _, _, err := c.Read(ctx); websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Errorf("%s: closed with %v", name, err)
		}
	}
	if got := <-status; got != http.StatusServiceUnavailable {
		t.Errorf("a long body is answered with %d", got)
	}
}

// TestStreamOverHTTP2 follows a session over HTTP/2 without TLS, compressed.
func TestStreamOverHTTP2(t *testing.T) {
	w := newTestServer(t, nil)
	w.create("root", `{"id":"s"}`)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	defer client.CloseIdleConnections()
	f, res := w.follow("root", "/parley/v1/sessions/s/stream?after=0", client, func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") })
	if res.ProtoMajor != 2 || res.Header.Get("Content-Encoding") != "gzip" {
		t.Fatal(res.Proto, res.Header)
	}
	w.must("root", "POST", "/parley/v1/sessions/s/events", say("/stream 50"))
	for {
		got := f.next()
		if strings.Contains(got.data, `"turn.completed"`) {
			break
		}
	}
	res.Body.Close()
}

// TestHistoryIsCompressedWhenAskedFor reads the same events in three content codings.
func TestHistoryIsCompressedWhenAskedFor(t *testing.T) {
	w := newTestServer(t, nil)
	w.create("root", `{"id":"s","agent":"none"}`)
	for range 20 {
		w.must("root", "POST", "/parley/v1/sessions/s/events", say(strings.Repeat("again and ", 20)))
	}
	get := func(accept string) (string, []byte) {
		r := w.request("root", "GET", "/parley/v1/sessions/s/events", nil)
		r.Header.Set("Accept-Encoding", accept)
		res, err := w.HTTP.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.Header.Get("Content-Encoding"), b
	}
	_, plain := get("identity")
	enc, packed := get("gzip")
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil || enc != "gzip" {
		t.Fatal(enc, err)
	}
	if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("gzip gives other bytes: %v", err)
	}
	enc, packed = get("zstd, gzip;q=0.5")
	d, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil || enc != "zstd" {
		t.Fatal(enc, err)
	}
	defer d.Close()
	if got, err := io.ReadAll(d); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("zstd gives other bytes: %v", err)
	}
}

// TestPipelinedAppendsKeepTheirOrder sends many appends without waiting.
func TestPipelinedAppendsKeepTheirOrder(t *testing.T) {
	w := newTestServer(t, nil)
	w.create("root", `{"id":"s","agent":"none"}`)
	conn := w.dial("root", "/parley/v1/ws")
	defer conn.CloseNow()
	const n = 600
	go func() {
		for i := range n {
			_ = conn.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"op":"append","id":%d,"session_id":"s","events":[%s]}`, i, say(fmt.Sprint(i))))
		}
	}()
	for range n {
		var ack struct {
			Op     string       `json:"op"`
			ID     int          `json:"id"`
			Events []chat.Event `json:"events"`
		}
		text := w.readFrame(conn)
		if err := json.Unmarshal([]byte(text), &ack); err != nil || ack.Op != "ok" || len(ack.Events) != 1 {
			t.Fatal(text, err)
		}
		if got := int(ack.Events[0].Seq); got != ack.ID+2 {
			t.Fatalf("append %d became event %d", ack.ID, got)
		}
	}
}

// TestClientThatNeverReadsDelaysNoOne: a client that sends and never reads does not delay
// others in the same session.
func TestClientThatNeverReadsDelaysNoOne(t *testing.T) {
	w := newTestServer(t, nil)
	w.create("root", `{"id":"s","agent":"none"}`)
	conn := w.dial("root", "/parley/v1/ws")
	defer conn.CloseNow()
	big := say(strings.Repeat("x", 64<<10))
	sent := make(chan struct{}, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for i := range cap(sent) {
			if conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"op":"append","id":%d,"session_id":"s","events":[%s]}`, i, big)) != nil {
				return
			}
			sent <- struct{}{}
		}
	}()
	// Until the server stops reading, because its answers fill the connection.
	quiet := time.NewTimer(time.Second)
	for full := false; !full; {
		select {
		case <-sent:
			quiet.Reset(500 * time.Millisecond)
		case <-quiet.C:
			full = true
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.must("root", "POST", "/parley/v1/sessions/s/events", say("still here"))
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("a client that does not read blocks the session")
	}
}

// TestSecondWatchReplacesTheFirst: after the answer to a watch come only frames of that
// watch, in order and without a gap.
func TestSecondWatchReplacesTheFirst(t *testing.T) {
	w := newTestServer(t, nil)
	w.create("root", `{"id":"s","agent":"none"}`)
	conn := w.dial("root", "/parley/v1/ws")
	defer conn.CloseNow()
	ctx, cancel := context.WithCancel(t.Context())
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		for i := 0; i < 500 && ctx.Err() == nil; i++ {
			if _, err := w.Sessions.Append(ctx, chat.Trusted, "s", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: fmt.Sprint(i)})}); err != nil {
				return
			}
		}
	}()
	defer func() { cancel(); <-writing }()
	for round := range 20 {
		if err := conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"op":"watch","id":%d,"session_id":"s","after":"1"}`, round)); err != nil {
			t.Fatal(err)
		}
		next, begun := 2, false
		for seen := 0; seen < 5; {
			var f struct {
				Op     string `json:"op"`
				ID     int    `json:"id"`
				Cursor string `json:"cursor"`
			}
			text := w.readFrame(conn)
			if err := json.Unmarshal([]byte(text), &f); err != nil {
				t.Fatal(err)
			}
			switch {
			case f.Op == "ok" && f.ID == round:
				begun = true
			case f.Op == "event" && begun:
				if f.Cursor != fmt.Sprint(next) {
					t.Fatalf("round %d: cursor %s, want %d", round, f.Cursor, next)
				}
				next++
				seen++
			case f.Op != "event" && f.Op != "ping":
				t.Fatal(text)
			}
		}
	}
}

// TestRefusedUploadReadsNothing: a caller who may not write is refused before the body is
// read.
func TestRefusedUploadReadsNothing(t *testing.T) {
	w := newTestServer(t, nil)
	w.create("alice", `{"id":"s","agent":"none","members":[{"actor":{"kind":"user","id":"carol"},"role":"viewer"}]}`)
	for as, want := range map[string]int{"carol": 403, "bob": 404} {
		body, pen := io.Pipe()
		r := w.request(as, "PUT", "/parley/v1/sessions/s/artifacts/f", body)
		r.ContentLength = 1 << 20
		r.Header.Set("Expect", "100-continue")
		client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: 10 * time.Second}}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		pen.Close()
		client.CloseIdleConnections()
		if res.StatusCode != want {
			t.Errorf("%s: %d, want %d", as, res.StatusCode, want)
		}
	}
	if got := w.must("alice", "GET", "/parley/v1/sessions/s/artifacts", ""); got != `{"artifacts":[],"more":false}` {
		t.Error(got)
	}
}
