package tool

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// calls are the running calls of a server. They map its notifications and
// questions to conversations.
type calls struct {
	mu   sync.Mutex
	last int64
	open []*runningCall // in the order of their start
}

// runningCall is a call that a server executes.
type runningCall struct {
	token  string
	ctx    context.Context // of the call
	call   Call
	clock  *clock
	latest chan chat.AgentToolProgress // the latest progress; room for one

	posts  atomic.Int32 // requests over HTTP
	status atomic.Int32 // of the answer to the first of them, or unreachable
}

func (c *calls) begin(ctx context.Context, call Call, k *clock) *runningCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	u := &runningCall{token: strconv.FormatInt(c.last, 10), ctx: ctx, call: call, clock: k, latest: make(chan chat.AgentToolProgress, 1)}
	c.open = append(c.open, u)
	return u
}

func (c *calls) end(u *runningCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = slices.DeleteFunc(c.open, func(o *runningCall) bool { return o == u })
}

func (c *calls) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open) > 0
}

func (c *calls) find(token string) *runningCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.open, func(u *runningCall) bool { return u.token == token }); i >= 0 {
		return c.open[i]
	}
	return nil
}

// only returns the call that a question belongs to. The protocol does not name it,
// so it is nil when several conversations use the server.
func (c *calls) only() *runningCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	var last *runningCall
	for _, u := range c.open {
		if last != nil && u.call.Turn.Ref().Turn != last.call.Turn.Ref().Turn {
			return nil
		}
		last = u
	}
	return last
}

// errSilent is the cause of a call's context when the tool took too long.
var errSilent = errors.New("the tool took too long")

// clock ends a call that makes no progress for too long. It can be held while a
// person is asked.
type clock struct {
	limit time.Duration
	timer *time.Timer // nil without a limit

	mu   sync.Mutex
	held int
}

func newClock(limit time.Duration, end func()) *clock {
	k := &clock{limit: limit}
	if limit > 0 {
		k.timer = time.AfterFunc(limit, end)
	}
	return k
}

// hold stops the clock until the function it returns is called.
func (k *clock) hold() (release func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held++; k.timer != nil {
		k.timer.Stop()
	}
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.held--; k.held == 0 && k.timer != nil {
			k.timer.Reset(k.limit)
		}
	}
}

// restart starts the time again.
func (k *clock) restart() { k.hold()() }

func (k *clock) stop() {
	if k.timer != nil {
		k.timer.Stop()
	}
}

// call runs a tool of the server.
func (s *Server) call(ctx context.Context, name string, c Call) (json.RawMessage, error) {
	if s.exclusive != nil {
		select {
		case <-s.exclusive:
			defer func() { s.exclusive <- struct{}{} }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	result, err := s.callOnce(ctx, name, c)
	if errors.Is(err, errNotReceived) && ctx.Err() == nil {
		result, err = s.callOnce(ctx, name, c) // on a new connection
	}
	return result, err
}

// errNotReceived means that the server has certainly not executed the call.
var errNotReceived = errors.New("the server did not accept the call")

func (s *Server) callOnce(ctx context.Context, name string, c Call) (json.RawMessage, error) {
	session, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k := newClock(c.Timeout, func() { cancel(errSilent) })
	defer k.stop()
	u := s.calls.begin(limited, c, k)
	var sendProgress sync.WaitGroup
	sendProgress.Go(func() { u.sendProgress(limited) })
	params := &mcp.CallToolParams{Name: name, Arguments: c.Params}
	params.SetProgressToken(u.token)
	result, err := session.CallTool(context.WithValue(limited, callKey{}, u), params)
	s.calls.end(u)
	cancel(agent.ErrNotNeeded) // withdraws open questions of the server
	sendProgress.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil:
		return resultOf(result)
	case errors.Is(context.Cause(limited), errSilent):
		return nil, &Error{Code: TimedOut, Msg: fmt.Sprintf("the tool gave no answer within %s; whether it took effect is not known", c.Timeout), Err: err}
	}
	e, answered := errors.AsType[*jsonrpc.Error](err)
	switch {
	case answered && e.Code != rejected && !u.sessionUnknown() && !(u.notReceived() && e.Code == noSession):
		return nil, &Error{Code: Failed, Msg: "the MCP server refused the call: " + e.Message, Err: err}
	case u.notReceived():
		s.lost(session, err)
		return nil, &Error{Code: Unavailable, Msg: fmt.Sprintf("the MCP server %s does not accept the call: %s", s.opt.Name, reason(err)), Err: errors.Join(errNotReceived, err)}
	case u.busy():
		return nil, &Error{Code: Lost, Msg: fmt.Sprintf("the MCP server %s gave no answer (%d); whether the call took effect is not known", s.opt.Name, u.status.Load()), Err: err}
	}
	s.lost(session, err)
	return nil, &Error{Code: Lost, Msg: fmt.Sprintf("the MCP server %s was lost during the call; whether it took effect is not known", s.opt.Name), Err: err}
}

// Codes of errors that concern the connection, not the call.
const (
	rejected  = -32005 // the library: the request was not delivered
	noSession = -32000 // from servers that do not have the session
)

// progress receives the progress of a call from the server.
func (s *Server) progress(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	u := s.calls.find(fmt.Sprint(r.Params.ProgressToken))
	if u == nil {
		return
	}
	u.clock.restart()
	p := chat.AgentToolProgress{
		CallID: u.call.ID, Tool: u.call.Tool, Done: int64(r.Params.Progress), Total: int64(r.Params.Total), Message: r.Params.Message,
	}
	if t := r.Params.Total; t > 0 && t <= 1 { // a fraction; the event has a percentage
		p.Done, p.Total = int64(r.Params.Progress/t*100), 100
	}
	for {
		select {
		case u.latest <- p:
			return
		default:
		}
		select {
		case <-u.latest: // replaced by the newer one
		default:
		}
	}
}

// progressPause is the least time between two stored progress events.
const progressPause = 250 * time.Millisecond

// sendProgress stores progress until the call has ended.
func (u *runningCall) sendProgress(ctx context.Context) {
	part := u.call.Turn.Part("p")
	for {
		select {
		case p := <-u.latest:
			if _, err := part.Append(ctx, p); err != nil {
				return // the turn has ended, or the log cannot be written: the call fails too
			}
		case <-ctx.Done():
			select {
			case p := <-u.latest:
				_, _ = part.Append(context.WithoutCancel(ctx), p) // the call has its result already
			default:
			}
			return
		}
		pause := time.NewTimer(progressPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// Limits of a result, so that it fits an event.
const (
	maxText  = 256 << 10
	maxJSON  = 512 << 10 // of a text, encoded as JSON
	maxImage = 400 << 10 // of all pictures together
)

// resultOf turns the response of a server into the result that is stored.
func resultOf(r *mcp.CallToolResult) (json.RawMessage, error) {
	var texts []string
	var parts []any
	hasImages, imageLeft, textLeft := false, maxImage, maxText
	addText := func(s string) {
		texts = append(texts, s)
		s = clip(s, textLeft, textLeft)
		textLeft = max(0, textLeft-json.StringLen(s))
		parts = append(parts, map[string]any{"type": "text", "text": s})
	}
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			addText(c.Text)
		case *mcp.ImageContent:
			data := base64.StdEncoding.EncodeToString(c.Data)
			if imageLeft -= len(data); imageLeft < 0 {
				addText("[an image of " + strconv.Itoa(len(c.Data)) + " bytes was left out: it is too large]")
				continue
			}
			hasImages = true
			parts = append(parts, map[string]any{"type": "image", "source": map[string]string{"type": "base64", "media_type": c.MIMEType, "data": data}})
		case *mcp.AudioContent:
			addText("[audio, " + c.MIMEType + ", " + strconv.Itoa(len(c.Data)) + " bytes]")
		case *mcp.ResourceLink:
			addText("[resource " + c.URI + ": " + c.Name + "]")
		case *mcp.EmbeddedResource:
			switch {
			case c.Resource == nil:
			case c.Resource.Text != "":
				addText(c.Resource.Text)
			default:
				addText("[resource " + c.Resource.URI + ", " + strconv.Itoa(len(c.Resource.Blob)) + " bytes]")
			}
		}
	}
	text := Clip(strings.Join(texts, "\n"))
	if r.IsError {
		return nil, &Error{Code: Failed, Msg: cmp.Or(text, "the tool failed and gave no reason")}
	}
	if hasImages {
		return json.Marshal(parts)
	}
	if r.StructuredContent != nil {
		if b, err := json.Marshal(r.StructuredContent); err == nil && len(b) <= maxText {
			return b, nil
		}
	}
	return json.Marshal(text)
}

// Clip cuts a text so that it fits an event.
func Clip(s string) string { return clip(s, maxText, maxJSON) }

// clip cuts a text to a number of bytes, and to a number of bytes as JSON, where
// some characters take six.
func clip(s string, maxBytes, maxEncoded int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxBytes && json.StringLen(s) <= maxEncoded {
		return s
	}
	n, encoded := 0, 0
	for i, c := range s {
		size := utf8.RuneLen(c)
		encoded += json.StringLen(s[i : i+size])
		if n = i; i+size > maxBytes || encoded > maxEncoded {
			break
		}
	}
	return s[:n] + fmt.Sprintf("… [%d bytes more were left out]", len(s)-n)
}
