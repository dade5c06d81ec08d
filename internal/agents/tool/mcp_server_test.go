package tool_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-hq/parley/internal/agents/tool"
)

// peer is an MCP server that can be made to hang.
type peer struct {
	*httptest.Server
	hangs atomic.Bool
	asked chan struct{} // a request that hangs has come; room for one
}

func newPeer(t *testing.T) *peer {
	p := &peer{asked: make(chan struct{}, 1)}
	inner := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return inner }, &mcp.StreamableHTTPOptions{Stateless: true})
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.hangs.Load() && r.Method == http.MethodPost {
			select {
			case p.asked <- struct{}{}:
			default:
			}
			_, _ = io.Copy(io.Discard, r.Body) // so that the end of the connection is noticed
			<-r.Context().Done()
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// within is a context that ends by itself.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// timeout only ends a test that hangs.
const timeout = time.Minute

// Health reports a server that accepts connections but does not answer, until it
// answers again.
func TestHealthOfAHangingServer(t *testing.T) {
	p := newPeer(t)
	s := tool.NewServer(tool.ServerOptions{Name: "kit", URL: p.URL})
	t.Cleanup(s.Close)
	probe := func(d time.Duration, well bool) {
		t.Helper()
		err := s.Probe(within(t, d))
		if (err == nil) != well || (s.Health() == nil) != well || err != nil && !strings.Contains(err.Error(), "did not answer in time") {
			t.Fatalf("probe: %v, health: %v", err, s.Health())
		}
	}
	p.hangs.Store(true)
	probe(50*time.Millisecond, false)
	p.hangs.Store(false)
	probe(timeout, true)
	p.hangs.Store(true)
	probe(50*time.Millisecond, false)
	p.hangs.Store(false)
	probe(timeout, true)
}

// A cancelled caller does not wait for the connection attempt of another.
func TestCancelWhileAnotherConnects(t *testing.T) {
	p := newPeer(t)
	p.hangs.Store(true)
	s := tool.NewServer(tool.ServerOptions{Name: "kit", URL: p.URL, Connect: 10 * timeout})
	t.Cleanup(s.Close)
	first, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.Tools(first)
	}()
	<-p.asked
	stopped, stop := context.WithCancel(context.Background())
	stop()
	ctxEnded := make(chan error, 1)
	go func() {
		_, err := s.Tools(stopped)
		ctxEnded <- err
	}()
	select {
	case err := <-ctxEnded:
		if err == nil {
			t.Error("it has tools")
		}
	case <-time.After(timeout):
		t.Error("it waits for the other")
	}
	end()
	<-ended
}

// stuck is a network that ignores the end of a context.
type stuck struct{ asked, release chan struct{} }

func (n stuck) RoundTrip(*http.Request) (*http.Response, error) {
	select {
	case n.asked <- struct{}{}:
	default:
	}
	<-n.release
	return nil, errors.New("nothing came")
}

// A stopped turn does not wait until the connection attempt has ended.
func TestStopWhileConnecting(t *testing.T) {
	n := stuck{make(chan struct{}, 1), make(chan struct{})}
	s := tool.NewServer(tool.ServerOptions{Name: "kit", URL: "http://127.0.0.1:1", Client: &http.Client{Transport: n}})
	t.Cleanup(s.Close)
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() {
		_, err := s.Tools(ctx)
		stopped <- err
	}()
	<-n.asked
	stop()
	select {
	case err := <-stopped:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(timeout):
		t.Error("it waits for the attempt")
	}
	close(n.release)
}

// Another server gets neither the headers of an MCP server nor what is sent to it.
func TestRedirectsToOtherServersAreNotFollowed(t *testing.T) {
	var got atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	t.Cleanup(other.Close)
	p := newPeer(t)
	mux := http.NewServeMux()
	mux.Handle("/away", http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	mux.Handle("/old", http.RedirectHandler("/mcp", http.StatusTemporaryRedirect))
	mux.Handle("/mcp", p.Config.Handler)
	front := httptest.NewServer(mux)
	t.Cleanup(front.Close)
	for path, fails := range map[string]bool{"/away": true, "/old": false} {
		s := tool.NewServer(tool.ServerOptions{Name: "kit", URL: front.URL + path, Headers: map[string]string{"X-Api-Key": "secret"}})
		t.Cleanup(s.Close)
		if _, err := s.Tools(within(t, timeout)); (err != nil) != fails {
			t.Errorf("%s: %v", path, err)
		}
	}
	if n := got.Load(); n > 0 {
		t.Errorf("the other server got %d requests", n)
	}
}
