package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestQuantilesAreWithinASixteenth(t *testing.T) {
	var h Histogram
	for us := 1; us <= 100_000; us++ {
		h.Add(time.Duration(us) * time.Microsecond)
	}
	for _, q := range []float64{.01, .5, .99} {
		want := q * 100_000
		got := float64(h.Quantile(q) / time.Microsecond)
		if got < want*15/16 || got > want*17/16 {
			t.Errorf("quantile %v is %v µs, want about %v", q, got, want)
		}
	}
	var sum Histogram
	sum.Merge(&h)
	sum.Merge(&h)
	if sum.Count() != 200_000 || sum.Quantile(.5) != h.Quantile(.5) {
		t.Errorf("merged: %d, median %v", sum.Count(), sum.Quantile(.5))
	}
	if empty := (&Histogram{}).Quantile(.5); empty != 0 {
		t.Errorf("the median of nothing is %v", empty)
	}
}

func TestStampsAreFoundHoweverTheStreamIsCut(t *testing.T) {
	var stream []byte
	var want []int64
	for i := range 50 {
		us := int64(1_700_000_000_000_000 + i)
		stream = append(stream, strings.Repeat("x", i%7)...)
		stream = AppendStamp(stream, time.UnixMicro(us))
		want = append(want, us)
	}
	for size := 1; size < 40; size++ {
		var s scanner
		var got []int64
		n := 0
		for part := range slices.Chunk(stream, size) {
			n += s.scan(part, func(us int64) { got = append(got, us) })
		}
		if n != len(want) || !slices.Equal(got, want) {
			t.Fatalf("cut into %d: %d stamps, %v", size, n, got)
		}
	}
}

func TestRequestSetsAllStampsEachTime(t *testing.T) {
	s := prepare(Request{Bytes: drafts(texts(0, 3))})
	now := time.Now().UnixMicro()
	b := s.now()
	var seen scanner
	n := seen.scan(b, func(us int64) {
		if us < now || us > time.Now().UnixMicro() {
			t.Errorf("stamp %d is not of now", us)
		}
	})
	if n != 3 || b[0] != '[' {
		t.Errorf("%d stamps in %.40s", n, b)
	}
}

// startServer starts a server that accepts appends and sends ten stamps on each stream.
func startServer(t *testing.T) Target {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /parley/v1/sessions", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	mux.HandleFunc("POST /parley/v1/sessions/{id}/events", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if bytes.Contains(b, []byte("refuse")) || r.PathValue("id") == "refused" {
			http.Error(w, "refused", http.StatusConflict)
			return
		}
		fmt.Fprintf(w, `{"events":%d}`, bytes.Count(b, []byte(`"type"`)))
	})
	mux.HandleFunc("GET /parley/v1/sessions/{id}/stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		for range 10 {
			fmt.Fprintf(w, "data: %s\n\n", AppendStamp(nil, time.Now()))
			_ = http.NewResponseController(w).Flush()
		}
		if r.PathValue("id") != "cut" {
			<-r.Context().Done()
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	target, err := ParseTarget(s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func TestAppendsAreCounted(t *testing.T) {
	target := startServer(t)
	ids, err := Sessions(target, "a", 4)
	if err != nil || len(ids) != 4 || ids[3] != "a-3" {
		t.Fatalf("%v, %v", ids, err)
	}
	r, err := Append(context.Background(), target, NativeHTTP{}, ids, 3, 1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if r.Count == 0 || r.Count != 3*int64(r.Latency.Count()) || r.PerSecond <= 0 {
		t.Errorf("%d messages in %d requests, %.0f a second", r.Count, r.Latency.Count(), r.PerSecond)
	}
	if _, err := Append(context.Background(), target, NativeHTTP{}, []string{"refused"}, 1, 1, time.Second); err == nil || !strings.Contains(err.Error(), "409") {
		t.Errorf("a refusal gives %v", err)
	}
}

func TestReadersCountAllMessagesAndReportLostConnections(t *testing.T) {
	target := startServer(t)
	c, err := NewReaders()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Watch(target, SSE{}, slices.Repeat([]string{"s"}, 16)); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(160); err != nil {
		t.Fatal(err)
	}
	h := c.Take()
	if c.Seen() != 160 || h.Count() == 0 {
		t.Errorf("seen %d, %d latencies", c.Seen(), h.Count())
	}
	if err := c.Watch(target, SSE{}, []string{"cut"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(1000); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("waiting for a reader that was cut off gives %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestFramesOfAllSizes(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	ws := &Conn{Conn: client, R: bufio.NewReader(client)}
	for _, size := range []int{0, 125, 126, 65535, 65536} {
		payload := bytes.Repeat([]byte("x"), size)
		frame := AppendFrame(nil, payload)
		if !bytes.HasSuffix(frame, payload) || frame[1]&0x80 == 0 {
			t.Errorf("a frame of %d bytes begins with %x", size, frame[:2])
		}
		// A server's frame is the same without the mask.
		head := len(frame) - size - 4
		answer := slices.Concat(frame[:head], payload)
		answer[1] &^= 0x80
		go server.Write(answer)
		if got, err := (WS{}).Receive(ws); err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%d of %d bytes came, %v", len(got), size, err)
		}
	}
}

func TestNativeAnswersAndRefusals(t *testing.T) {
	for msg, want := range map[string]int{`{"op":"ok","id":1}`: 1, `{"op":"ping"}`: 0, `{"op":"event"}`: 0} {
		if n, err := (Native{}).Answers([]byte(msg)); n != want || err != nil {
			t.Errorf("%s: %d, %v", msg, n, err)
		}
	}
	if _, err := (Native{}).Answers([]byte(`{"op":"error","error":{"code":"conflict"}}`)); err == nil {
		t.Error("a refusal passed as an answer")
	}
}

func TestParseTarget(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:8000", "ftp://x", "http://"} {
		if _, err := ParseTarget(bad, ""); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if got, err := ParseTarget("https://parley.example", "t"); err != nil || got.Host != "parley.example:443" || !got.TLS {
		t.Errorf("%+v, %v", got, err)
	}
}

// lines is a wire whose messages are lines: "ok" answers a request, "other" does not.
type lines struct{ HTTP }

func (lines) Receive(c *Conn) ([]byte, error) { return c.Line() }

func (lines) Answers(msg []byte) (int, error) {
	switch string(msg) {
	case "ok":
		return 1, nil
	case "other":
		return 0, nil
	}
	return 0, fmt.Errorf("refused: %s", msg)
}

func (lines) Append(Target, string, []string) Request {
	return Request{Bytes: []byte("request\n"), Answers: 1}
}

// Answers may come in parts, several at once, and between other messages. Such a message may also follow the last answer.
func TestEachAnswerIsCountedHoweverItArrives(t *testing.T) {
	for _, inFlight := range []int{1, 16} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int64
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					for r := bufio.NewReader(c); ; {
						var answers []byte
						for len(answers) == 0 || r.Buffered() > 0 {
							if _, err := r.ReadSlice('\n'); err != nil {
								return
							}
							asked.Add(1)
							answers = append(answers, "other\nok\nother\n"...)
						}
						for part := range slices.Chunk(answers, 7) {
							_, _ = c.Write(part)
						}
					}
				}()
			}
		}()
		r, err := Append(t.Context(), Target{Host: l.Addr().String()}, lines{}, make([]string, 5), 1, inFlight, 50*time.Millisecond)
		l.Close()
		if err != nil || r.Count == 0 || r.Count != asked.Load() || int64(r.Latency.Count()) != r.Count {
			t.Errorf("%d under way: %d counted, %d latencies, %d asked, %v", inFlight, r.Count, r.Latency.Count(), asked.Load(), err)
		}
	}
}
