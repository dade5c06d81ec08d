package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-hq/parley/internal/json"
)

// ServerOptions configures a Server. One of Command and URL is set. The fields with a
// name are those of an entry of the configuration file.
type ServerOptions struct {
	Name      string            `yaml:"name"`      // prefix of the names of its tools
	Command   []string          `yaml:"command"`   // program and arguments; it is reached over its standard input and output
	Dir       string            `yaml:"dir"`       // its working folder
	Env       map[string]string `yaml:"env"`       // added to the basic environment
	URL       string            `yaml:"url"`       // of a server with streamable HTTP
	Headers   map[string]string `yaml:"headers"`   // of each request
	Connect   time.Duration     `yaml:"timeout"`   // how long connecting may take; 0 means 30 s
	Exclusive bool              `yaml:"exclusive"` // one call at a time, so that its questions belong to a known call
	Approval  Approval          `yaml:"approval"`  // of its tools, unless a rule sets another; "" means Ask
	Only      []string          `yaml:"only"`      // names or patterns of the tools that are offered; none means all
	Client    *http.Client      `yaml:"-"`         // nil means a new one
	Version   string            `yaml:"-"`         // of this program, sent to the server
	Logger    *slog.Logger      `yaml:"-"`         // nil means none
}

// Server is one MCP server.
type Server struct {
	opt       ServerOptions
	exclusive chan struct{} // nil unless Exclusive; holds one value while no call runs
	client    *mcp.Client
	calls     calls

	dialing chan struct{} // holds one value while no goroutine connects; never waited for with mu held

	mu      sync.Mutex
	session *mcp.ClientSession
	program *exec.Cmd // of the session; nil over HTTP
	tools   []Tool    // of the session; nil when they have to be listed again
	problem error     // why there is no session, or what is wrong with it
	tried   time.Time
	backoff time.Duration // before the next attempt
	closed  bool

	watchers sync.WaitGroup // one per session, until it has ended, and one per attempt
}

// NewServer returns a server that is not connected yet.
func NewServer(opt ServerOptions) *Server {
	opt.Connect = cmp.Or(opt.Connect, 30*time.Second)
	opt.Approval = cmp.Or(opt.Approval, Ask)
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	opt.Version = cmp.Or(opt.Version, "dev")
	s := &Server{opt: opt, dialing: make(chan struct{}, 1)}
	s.dialing <- struct{}{}
	if opt.Exclusive {
		s.exclusive = make(chan struct{}, 1)
		s.exclusive <- struct{}{}
	}
	s.client = mcp.NewClient(&mcp.Implementation{Name: "parley", Title: "Parley", Version: opt.Version}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{
			Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
		}},
		ElicitationHandler:          s.elicit,
		ProgressNotificationHandler: s.progress,
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { s.forgetTools() },
	})
	return s
}

// Name returns the name of the server.
func (s *Server) Name() string { return s.opt.Name }

// Prefix returns the prefix of the names of its tools.
func (s *Server) Prefix() string { return s.opt.Name + "__" }

// Transport returns stdio or streamable-http.
func (s *Server) Transport() string {
	if s.opt.URL != "" {
		return "streamable-http"
	}
	return "stdio"
}

// Health returns nil when the server is connected and answers, or was not used yet.
func (s *Server) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem
}

// Probe connects if necessary and checks that the server answers.
func (s *Server) Probe(ctx context.Context) error {
	session, err := s.connect(ctx)
	if err != nil {
		return err
	}
	_, err = session.ListTools(ctx, nil)
	switch {
	case err == nil:
		s.setProblem(session, nil)
	case ctx.Err() == nil:
		s.lost(session, err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && !s.calls.any():
		// The server may recover, so the connection is kept. While it executes a call it may be too busy to respond.
		s.setProblem(session, &Error{Code: Unavailable, Msg: fmt.Sprintf("the MCP server %s did not answer in time", s.opt.Name), Err: err})
	}
	return s.Health()
}

// setProblem stores the state of a session.
func (s *Server) setProblem(session *mcp.ClientSession, problem error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == session {
		s.problem = problem
	}
}

// Tools lists the tools of the server. Their names begin with Prefix.
func (s *Server) Tools(ctx context.Context) ([]Tool, error) {
	s.mu.Lock()
	tools, session := s.tools, s.session
	s.mu.Unlock()
	if session != nil && tools != nil {
		return tools, nil
	}
	session, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, s.opt.Connect)
	defer cancel()
	tools = []Tool{}
	for t, err := range session.Tools(limited, nil) {
		if err != nil {
			if ctx.Err() == nil {
				s.lost(session, err)
			}
			return nil, &Error{Code: Unavailable, Msg: fmt.Sprintf("the tools of %s cannot be listed: %s", s.opt.Name, err), Err: err}
		}
		if s.offers(t.Name) {
			tools = append(tools, s.tool(t))
		}
	}
	slices.SortFunc(tools, func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) }) // a stable order lets model endpoints cache
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == session {
		s.tools = tools
	}
	return tools, nil
}

func (s *Server) offers(name string) bool {
	return len(s.opt.Only) == 0 || slices.ContainsFunc(s.opt.Only, func(p string) bool { return glob(p, name) })
}

func (s *Server) tool(t *mcp.Tool) Tool {
	schema, err := json.Marshal(t.InputSchema)
	if err != nil || string(schema) == "null" {
		schema = nil
	}
	out := Tool{
		Name: s.Prefix() + t.Name, Description: cmp.Or(t.Description, t.Title), Parameters: schema, Approval: s.opt.Approval, Untimed: true,
		Run: func(ctx context.Context, c Call) (json.RawMessage, error) { return s.call(ctx, t.Name, c) },
	}
	if a := t.Annotations; a != nil {
		out.Repeatable = a.ReadOnlyHint || a.IdempotentHint
	}
	return out
}

func (s *Server) forgetTools() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = nil
}

// connect returns the session, a new one if there is none. After a failure it
// waits before it tries again; meanwhile callers get the failure.
func (s *Server) connect(ctx context.Context) (*mcp.ClientSession, error) {
	select {
	case <-s.dialing:
	case <-ctx.Done(): // a stopped turn does not wait for the connection attempt of another
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	session, err := s.session, error(nil)
	switch {
	case s.closed:
		session, err = nil, s.errClosed()
	case session != nil:
	case s.problem != nil && time.Since(s.tried) < s.backoff:
		err = s.problem
	default:
		return s.attempt(ctx)
	}
	s.dialing <- struct{}{}
	return session, err
}

// attempt connects. It returns at once when the turn is stopped, without waiting
// for the dial. The caller holds mu.
func (s *Server) attempt(ctx context.Context) (*mcp.ClientSession, error) {
	var session *mcp.ClientSession
	var err error
	done := make(chan struct{})
	s.watchers.Go(func() {
		defer func() { s.dialing <- struct{}{} }()
		defer close(done)
		session, err = s.dial(ctx)
	})
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-done:
	case <-ctx.Done():
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, context.Cause(ctx)
		}
		<-done // dial reports the deadline as its error
	}
	return session, err
}

// dial connects and stores the session or the problem.
func (s *Server) dial(ctx context.Context) (*mcp.ClientSession, error) {
	limited, cancel := context.WithTimeout(ctx, s.opt.Connect)
	defer cancel()
	transport, program := s.transport()
	session, err := s.client.Connect(limited, transport, nil)
	if err != nil {
		killProcessGroup(program)
	}
	ctxEnded := ctx.Err() != nil // the caller has less time than the limit, or was stopped
	if err != nil && ctxEnded && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried = time.Now()
	if err != nil {
		if !ctxEnded {
			s.backoff = min(max(2*s.backoff, time.Second), time.Minute)
		}
		s.problem = &Error{Code: Unavailable, Msg: fmt.Sprintf("the MCP server %s cannot be reached: %s", s.opt.Name, reason(err)), Err: err}
		return nil, s.problem
	}
	if s.closed {
		s.watchers.Go(func() { s.end(session, program) })
		return nil, s.errClosed()
	}
	s.session, s.program, s.tools, s.problem, s.backoff = session, program, nil, nil, 0
	s.watchers.Go(func() { s.lost(session, session.Wait()) }) // notices a server that ends between calls
	return session, nil
}

func (s *Server) errClosed() error {
	return &Error{Code: Unavailable, Msg: fmt.Sprintf("the MCP server %s was closed", s.opt.Name)}
}

// reason describes a connection error.
func reason(err error) string {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, mcp.ErrConnectionClosed) {
		return "it has ended"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "it did not answer in time"
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "its program was not found: " + err.Error()
	}
	if refused, ok := errors.AsType[*net.OpError](err); ok && refused.Op == "dial" {
		return "no server listens at the address"
	}
	return err.Error()
}

// lost drops a session that does not answer; the next use connects again.
func (s *Server) lost(session *mcp.ClientSession, err error) {
	s.mu.Lock()
	if s.session != session {
		s.mu.Unlock()
		return
	}
	program := s.program
	s.session, s.program, s.tools = nil, nil, nil
	s.tried, s.backoff = time.Now(), 0
	s.problem = &Error{Code: Unavailable, Msg: fmt.Sprintf("the connection to the MCP server %s broke: %s", s.opt.Name, reason(err)), Err: err}
	s.mu.Unlock()
	s.opt.Logger.Warn("lost the connection to an MCP server; the next use connects again", "server", s.opt.Name, "err", err)
	s.end(session, program)
}

// end closes a session; a process that does not exit is killed.
func (s *Server) end(session *mcp.ClientSession, program *exec.Cmd) {
	defer killProcessGroup(program)
	if err := session.Close(); err != nil {
		s.opt.Logger.Debug("an MCP server did not close cleanly", "server", s.opt.Name, "err", err)
	}
}

// Close ends the connection and the process, and returns when both have ended.
// Running calls end with an error.
func (s *Server) Close() {
	s.mu.Lock()
	session, program := s.session, s.program
	s.session, s.program, s.closed = nil, nil, true
	s.mu.Unlock()
	if session != nil {
		s.end(session, program)
	}
	s.watchers.Wait()
}

// transport returns the transport and the program, which is nil over HTTP.
func (s *Server) transport() (mcp.Transport, *exec.Cmd) {
	if s.opt.URL != "" {
		client := s.opt.Client
		if client == nil {
			client = &http.Client{}
		}
		withHeaders := *client
		withHeaders.Transport = roundTripper{client.Transport, s.opt.Headers}
		withHeaders.CheckRedirect = SameOrigin
		return &mcp.StreamableClientTransport{Endpoint: s.opt.URL, HTTPClient: &withHeaders}, nil
	}
	cmd := exec.Command(s.opt.Command[0], s.opt.Command[1:]...)
	cmd.Dir = s.opt.Dir
	cmd.Env = environment(s.opt.Env)
	setProcessGroup(cmd)
	cmd.WaitDelay = time.Second // its child processes may keep the output open
	cmd.Stderr = &stderrLog{log: s.opt.Logger, server: s.opt.Name}
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: 2 * time.Second}, cmd
}

// environment returns the variables that any program needs and the configured
// ones. The others are left out, because they may have keys and tokens.
func environment(given map[string]string) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "SHELL", "TERM", "TMPDIR", "TZ", "SystemRoot", "APPDATA", "USERPROFILE"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		env = append(env, name+"="+given[name])
	}
	return env
}
