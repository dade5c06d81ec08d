package bus

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// A server that refuses the login is tried again until it accepts it. The log says why it cannot be used.
func TestARefusedLoginIsLoggedAndTriedAgain(t *testing.T) {
	start := func(port int, password string) *server.Server {
		t.Helper()
		s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true, Username: "parley", Password: password})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		if !s.ReadyForConnections(time.Minute) {
			t.Fatal("the server does not start")
		}
		return s
	}
	s := start(server.RANDOM_PORT, "another one")
	port := s.Addr().(*net.TCPAddr).Port
	log := &lines{}
	conn, err := Dial(fmt.Sprintf("nats://parley:secret@127.0.0.1:%d", port), "test", slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	log.mu.Lock()
	if said := log.b.String(); !strings.Contains(said, "cannot be reached yet") || !strings.Contains(said, "Authorization Violation") {
		t.Errorf("the log says %q", said)
	}
	log.mu.Unlock()
	for seen, last := 0, uint64(0); seen < 3; time.Sleep(time.Millisecond) { // the client would give up after the second refusal
		v, err := s.Varz(nil)
		if err != nil {
			t.Fatal(err)
		}
		if v.TotalConnections > last {
			seen, last = seen+1, v.TotalConnections
		}
		if conn.IsClosed() {
			t.Fatal("the connection gave up")
		}
	}
	s.Shutdown()
	s.WaitForShutdown()
	s = start(port, "secret")
	defer s.Shutdown()
	for end := time.Now().Add(time.Minute); !conn.IsConnected(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the connection is not made when the server accepts the login")
		}
	}
}
