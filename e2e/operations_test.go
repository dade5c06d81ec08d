// Tests of health, metrics, a full disk, TLS and traces.

package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

// TestHealthReadinessMetrics: the operator's routes answer, metrics have no session ids,
// and profiles need their flag.
func TestHealthReadinessMetrics(t *testing.T) {
	p := serve(t, t.TempDir())
	if got := p.get("/healthz"); got != "ok\n" {
		t.Errorf("%q", got)
	}
	if got := p.get("/readyz"); got != "ok\n" {
		t.Errorf("%q", got)
	}
	p.post("/parley/v1/sessions", `{"id":"s"}`)
	metrics := p.get("/metrics")
	for _, name := range []string{"go_goroutines", "process_resident_memory_bytes", "parley_"} {
		if !strings.Contains(metrics, name) {
			t.Errorf("no %s in the metrics", name)
		}
	}
	if !regexp.MustCompile(`parley_\w+\{[^}]*dialect="native"`).MatchString(metrics) {
		t.Error("requests are not counted by dialect")
	}
	if strings.Contains(metrics, `"s"`) {
		t.Error("a session id is a label")
	}
	if code, _, _ := p.do(call{path: "/debug/pprof/"}); code != 404 {
		t.Errorf("profiles without the flag: %d", code)
	}
	with := serve(t, t.TempDir(), "--pprof")
	if got := with.get("/debug/pprof/"); !strings.Contains(got, "goroutine") {
		t.Error("no profiles with the flag")
	}
}

// TestDiskNearlyFull: below the watermark appends are refused; reads and erasures work.
func TestDiskNearlyFull(t *testing.T) {
	data := t.TempDir()
	p := serve(t, data)
	p.post("/parley/v1/sessions", `{"id":"s","agent":"none"}`)
	p.post("/parley/v1/sessions/s/events", `{"type":"user.message","payload":{"text":"kept"}}`)
	if code := p.terminate(); code != 0 {
		t.Fatal(code)
	}
	p = serve(t, data, "--min-free=4611686018427387904")
	code, body, header := p.do(call{method: "POST", path: "/parley/v1/sessions/s/events", body: `{"type":"user.message","payload":{"text":"more"}}`})
	if code != 503 || !strings.Contains(body, `"unavailable"`) || header.Get("Retry-After") == "" {
		t.Errorf("append: %d %s %v", code, body, header)
	}
	if code, body, _ := p.do(call{method: "POST", path: "/parley/v1/sessions", body: `{}`}); code != 503 {
		t.Errorf("create: %d %s", code, body)
	}
	if code, body, _ := p.do(call{method: "PUT", path: "/parley/v1/sessions/s/artifacts/f", body: "x"}); code != 503 {
		t.Errorf("put: %d %s", code, body)
	}
	if got := p.get("/parley/v1/sessions/s/events"); !strings.Contains(got, "kept") || strings.Contains(got, "more\"}") {
		t.Errorf("read: %s", got)
	}
	if got := p.get("/parley/v1/sessions/s/artifacts"); strings.Contains(got, `"path"`) {
		t.Errorf("a file without its event: %s", got)
	}
	if code, body, _ := p.do(call{method: "DELETE", path: "/parley/v1/sessions/s"}); code != 200 {
		t.Errorf("erase: %d %s", code, body)
	}
	if got := p.get("/healthz"); got != "ok\n" {
		t.Error(got)
	}
	// The server stays ready, because reads and erasures work; the metrics show the state.
	if got := p.get("/readyz"); got != "ok\n" {
		t.Error(got)
	}
	if got := p.get("/metrics"); !strings.Contains(got, "\nparley_journal_writable 0\n") {
		t.Error("the metrics do not show that writes are refused")
	}
}

// certificate creates a key and a self-signed certificate.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "parley test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return cert, key, pool
}

// TestTLS: with a certificate the server uses HTTP/2, streams included.
func TestTLS(t *testing.T) {
	cert, key, pool := certificate(t)
	p := serve(t, t.TempDir(), "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(p.url, "https://") {
		t.Fatal(p.url)
	}
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	p.must(call{method: "POST", path: "/parley/v1/sessions", body: `{"id":"s"}`, client: client})
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", p.url+"/parley/v1/sessions/s/stream?after=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.ProtoMajor != 2 {
		t.Errorf("the stream is %s", res.Proto)
	}
	p.must(call{method: "POST", path: "/parley/v1/sessions/s/events", body: `{"type":"user.message","payload":{"text":"hi"}}`, client: client})
	var got bytes.Buffer
	buf := make([]byte, 4096)
	for !strings.Contains(got.String(), "turn.completed") {
		n, err := res.Body.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			t.Fatalf("%v\n%s", err, got.String())
		}
	}
}

// TestTracesAreSent: a collector receives one span per turn, and the session has the
// trace id.
func TestTracesAreSent(t *testing.T) {
	spans := make(chan []byte, 16)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err == nil && r.URL.Path == "/v1/traces" {
			spans <- b
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer collector.Close()
	p := serve(t, t.TempDir(), "--otlp", collector.URL+"/v1/traces")
	p.post("/parley/v1/sessions", `{"id":"traced"}`)
	p.post("/parley/v1/sessions/traced/events", `{"type":"user.message","payload":{"text":"hi"}}`)
	c := p.connect("")
	r := newReader("traced")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	watched := make(chan error, 1)
	go func() { watched <- r.watchClient(ctx, c, "traced") }()
	defer func() { cancel(); <-watched }()
	trace, err := r.until(ctx, ofType("agent.trace"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.until(ctx, ofType("turn.completed")); err != nil {
		t.Fatal(err)
	}
	id, err := hex.DecodeString(trace.Body.(chat.AgentTrace).TraceID)
	if err != nil || len(id) != 16 {
		t.Fatalf("%s %v", trace.Payload, err)
	}
	if code := p.terminate(); code != 0 { // the remaining spans are sent at the end
		t.Errorf("exit code %d", code)
	}
	close(spans)
	sent := 0
	for b := range spans {
		sent += bytes.Count(b, id)
		if !bytes.Contains(b, []byte("traced")) {
			t.Error("the span does not name its session")
		}
	}
	if sent != 1 {
		t.Errorf("%d spans with the trace of the turn", sent)
	}
}
