package server

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/wire"
)

// start runs s on a free port; stop ends it and returns what Run returned.
func start(t *testing.T, o Options, routes ...Route) (addr string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Listener = l
	if o.Auth == nil {
		o.Auth = openAuth(t)
	}
	if o.Conns == nil {
		o.Conns = &wire.Conns{}
	}
	s := newServer(t, o)
	for _, r := range routes {
		s.Handle(r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), stop
}

func stream(conns *wire.Conns) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := wire.ServeSSE(w, r, wire.SSEOptions{}, conns, func(ctx context.Context, s *wire.Stream) error {
			c, _ := auth.From(ctx)
			if err := s.Write(ctx, wire.AppendSSE(nil, "hello", "", []byte(c.Actor.ID))); err != nil {
				return err
			}
			<-ctx.Done()
			if context.Cause(ctx) != wire.ErrShutdown {
				return context.Cause(ctx)
			}
			return s.Write(context.WithoutCancel(ctx), wire.AppendSSE(nil, "bye", "", []byte("come back")))
		})
		if err != nil {
			WriteError(w, r, err)
		}
	})
}

func client(t *testing.T, h1, h2, h2c bool) *http.Client {
	t.Helper()
	p := new(http.Protocols)
	p.SetHTTP1(h1)
	p.SetHTTP2(h2)
	p.SetUnencryptedHTTP2(h2c)
	tr := &http.Transport{Protocols: p, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // a test's own certificate
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestShutdownOfStreamsOnEveryProtocol(t *testing.T) {
	cert, key := certificateFiles(t, t.TempDir(), 1)
	for name, c := range map[string]struct {
		http  *http.Client
		tls   bool
		proto string
	}{
		"HTTP/1.1":              {client(t, true, false, false), false, "HTTP/1.1"},
		"unencrypted HTTP/2":    {client(t, false, false, true), false, "HTTP/2.0"},
		"HTTP/1.1 over TLS":     {client(t, true, false, false), true, "HTTP/1.1"},
		"HTTP/2 over TLS":       {client(t, true, true, false), true, "HTTP/2.0"},
		"HTTP/1.1, bare client": {http.DefaultClient, false, "HTTP/1.1"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Conns: &wire.Conns{}}
			scheme := "http://"
			if c.tls {
				o.CertFile, o.KeyFile, scheme = cert, key, "https://"
			}
			addr, stop := start(t, o, Route{Pattern: "GET /stream", Handler: stream(o.Conns)})
			resp, err := c.http.Get(scheme + addr + "/stream")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.Proto != c.proto {
				t.Errorf("spoke %s", resp.Proto)
			}
			in := bufio.NewReader(resp.Body)
			if line, err := in.ReadString('\n'); line != "event: hello\n" || err != nil {
				t.Fatalf("%q, %v", line, err)
			}
			stopped := make(chan error, 1)
			go func() { stopped <- stop() }()
			rest, err := io.ReadAll(in)
			if !strings.HasSuffix(string(rest), "event: bye\ndata: come back\n\n") || err != nil {
				t.Errorf("%q, %v", rest, err)
			}
			if !strings.HasPrefix(string(rest), "data: local\n") {
				t.Errorf("the stream does not know its caller: %q", rest)
			}
			c.http.CloseIdleConnections()
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWebSocketThroughTheServer(t *testing.T) {
	conns := &wire.Conns{}
	addr, stop := start(t, Options{Conns: conns}, Route{Pattern: "GET /ws", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := wire.ServeWS(w, r, wire.WSOptions{}, conns, func(ctx context.Context, c *wire.Conn) error {
			for {
				msg, err := c.Read(ctx)
				if err != nil {
					return err
				}
				if err := c.WriteText(ctx, msg); err != nil {
					return err
				}
			}
		}); err != nil {
			WriteError(w, r, err)
		}
	})})
	if _, resp, err := websocket.Dial(t.Context(), "ws://"+addr+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://evil.com"}}}); err == nil || resp.StatusCode != 403 {
		t.Errorf("a stranger's page: %v", err)
	}
	c, _, err := websocket.Dial(t.Context(), "ws://"+addr+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"http://localhost:3000"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	c.Write(t.Context(), websocket.MessageText, []byte("hi"))
	if _, got, err := c.Read(t.Context()); string(got) != "hi" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	closed := make(chan error, 1)
	go func() {
		_, _, err := c.Read(t.Context())
		closed <- err
	}()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := <-closed; websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("at the end: %v", err)
	}
}

func TestHandlersFinishAndLateOnesAreClosed(t *testing.T) {
	entered, finish := make(chan struct{}, 2), make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		select {
		case <-finish:
			io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	})
	type result struct {
		body string
		err  error
	}
	get := func(c *http.Client, addr string) chan result {
		got := make(chan result, 1)
		go func() {
			resp, err := c.Get("http://" + addr + "/slow")
			if err != nil {
				got <- result{err: err}
				return
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			got <- result{string(b), err}
		}()
		<-entered
		return got
	}
	c := client(t, true, false, false)

	addr, stop := start(t, Options{}, Route{Pattern: "/slow", Handler: slow})
	got := get(c, addr)
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for { // until it no longer accepts
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			break
		}
		conn.Close()
	}
	close(finish)
	if r := <-got; r.body != "done" || r.err != nil {
		t.Errorf("the request under way got %q, %v", r.body, r.err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}

	finish = make(chan struct{}) // never
	addr, stop = start(t, Options{Grace: 50 * time.Millisecond}, Route{Pattern: "/slow", Handler: slow})
	got = get(c, addr)
	if err := stop(); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("Run returned %v", err)
	}
	if r := <-got; r.err == nil {
		t.Error("a cut request looks answered")
	}
}

func TestSlowHeaderIsCut(t *testing.T) {
	addr, _ := start(t, Options{ReadHeaderTimeout: 50 * time.Millisecond})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	if _, err := io.ReadAll(c); err != nil {
		t.Errorf("the server waits for the rest of the head: %v", err)
	}
	if o := (Options{}); true {
		o.defaults()
		if o.ReadHeaderTimeout == 0 || o.IdleTimeout == 0 || o.BodyTimeout == 0 {
			t.Error("a time limit is missing by default")
		}
	}
}

func TestSlowBodyIsCut(t *testing.T) {
	failed := make(chan error, 1)
	read := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := wire.ReadBody(r, 1000)
		failed <- err
	})
	addr, _ := start(t, Options{BodyTimeout: 50 * time.Millisecond}, Route{Pattern: "/", Handler: read}, Route{Pattern: "/upload", Handler: read, Upload: true})
	for _, path := range []string{"/", "/upload"} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc")
		if err := <-failed; !os.IsTimeout(err) {
			t.Errorf("%s: the body ended with %v", path, err)
		}
	}
}

func TestLargeHeaderIsRefused(t *testing.T) {
	addr, _ := start(t, Options{MaxHeader: 1000})
	r, _ := http.NewRequest("GET", "http://"+addr+"/healthz", nil)
	r.Header.Set("X-Big", strings.Repeat("x", 20_000))
	resp, err := client(t, true, false, false).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Error(resp.Status)
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newServer(t, Options{Auth: openAuth(t), Addr: l.Addr().String()})
	err = s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "--addr") {
		t.Errorf("Run = %v", err)
	}
}

func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificateFiles(t, dir, 1)
	var problems []error
	c := &certificate{certFile: cert, keyFile: key, failed: func(err error) { problems = append(problems, err) }}
	if err := c.load(); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	serial := func() int64 {
		now = now.Add(2 * certPause)
		x, err := x509.ParseCertificate(c.get(now).Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return x.SerialNumber.Int64()
	}
	if serial() != 1 {
		t.Error("wrong certificate")
	}
	certificateFiles(t, dir, 22222) // another length, since the time stamp may be the same
	if n := serial(); n != 22222 {
		t.Errorf("still serving %d", n)
	}
	os.WriteFile(cert, []byte("broken"), 0o600)
	if again := serial(); serial() != 22222 || again != 22222 || len(problems) != 1 {
		t.Errorf("a broken file: %v", problems)
	}
	os.Remove(cert)
	if serial() != 22222 {
		t.Error("a missing file took the certificate away")
	}
}

func certificateFiles(t *testing.T, dir string, serial int64) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: strings.Repeat("x", int(serial%50))},
		NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
