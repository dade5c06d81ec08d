package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sse"
	"github.com/parley-hq/parley/internal/text"
)

// maxLine is the longest line of a stream.
const maxLine = 4 << 20

var (
	errSilence = errors.New("silence")
	errLimit   = errors.New("limit")
)

// newClient returns the client of one agent. The address is the operator's, so
// it may be private; where it leads to is not, so redirects are not followed.
func newClient(o *Options) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: o.Connect, KeepAlive: 30 * time.Second}).DialContext
	t.TLSHandshakeTimeout = o.Connect
	t.ResponseHeaderTimeout = o.Wait
	t.MaxIdleConnsPerHost = 8
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// stream is an answer as it comes in.
type stream struct {
	a         *Agent
	res       *http.Response
	r         *bufio.Reader
	left      int64
	until     context.Context // of the request
	turn      context.Context
	end       context.CancelCauseFunc
	silence   *time.Timer
	limit     *time.Timer
	truncated bool // the last line had no end
}

// post calls an address of the endpoint; while it does not take the call, it is
// called again.
func (a *Agent) post(ctx context.Context, address string, body any, accept string, header http.Header) (*stream, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, chat.Errorf(chat.Internal, "the request to the agent's endpoint cannot be written as JSON").Because(err)
	}
	for try := 0; ; try++ {
		s, pause, err := a.try(ctx, address, b, accept, header)
		if err == nil || pause < 0 || try >= a.opt.Retries || ctx.Err() != nil {
			if ctx.Err() == nil {
				a.setHealth(err)
			}
			return s, err
		}
		a.opt.Logger.WarnContext(ctx, "an agent's endpoint did not take a call; trying again", "endpoint", a.address(), "err", err)
		if pause == 0 {
			pause = 500 * time.Millisecond << try
		}
		if err := wait(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// try calls once. pause is negative when there is no sense in another try, 0
// when nothing is known about when.
func (a *Agent) try(ctx context.Context, address string, body []byte, accept string, header http.Header) (_ *stream, pause time.Duration, err error) {
	s := &stream{a: a, turn: ctx, left: a.opt.Max}
	s.until, s.end = context.WithCancelCause(ctx)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	req, err := http.NewRequestWithContext(s.until, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, -1, chat.Errorf(chat.Internal, "the address of the agent's endpoint cannot be called").Because(err)
	}
	if err := a.authorize(req.Header); err != nil {
		return nil, -1, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accept)
	s.silence = time.AfterFunc(a.opt.Wait+a.opt.Connect, func() { s.end(errSilence) })
	s.limit = time.AfterFunc(a.opt.Limit, func() { s.end(errLimit) })
	res, err := a.client.Do(req)
	if err != nil {
		return nil, dialDelay(err), s.problem(err)
	}
	s.res = res
	if res.StatusCode >= 300 {
		return nil, retryAfter(res), a.refusal(res)
	}
	s.silence.Reset(a.opt.Silence)
	s.r = bufio.NewReaderSize(s, 32<<10)
	return s, 0, nil
}

// dialDelay says whether a call that got no answer may be repeated: only when it
// cannot have arrived.
func dialDelay(err error) time.Duration {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return 0
	}
	return -1
}

// retryAfter says when a refused call may be repeated.
func retryAfter(res *http.Response) time.Duration {
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
	default:
		return -1
	}
	if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && n > 0 {
		if n > 30 {
			return -1 // nobody waits for so long
		}
		return time.Duration(n) * time.Second
	}
	return 0
}

// authorize puts the key and the operator's headers on a request.
func (a *Agent) authorize(h http.Header) error {
	h.Set("User-Agent", "parley")
	for k, v := range a.opt.Headers {
		h.Set(k, v)
	}
	if a.opt.Key == nil {
		return nil
	}
	key, err := a.opt.Key()
	if err != nil {
		return agent.Failf(agent.CodeNoKey, chat.Unavailable, "the key of the agent's endpoint is missing: %s; set it, then ask again", err).Because(err)
	}
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
	return nil
}

// refusal words an answer that is none.
func (a *Agent) refusal(res *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(res.Body, 8<<10))
	why := errorText(b)
	if why != "" {
		why = ": " + why
	}
	switch {
	case res.StatusCode < 400:
		to := res.Header.Get("Location")
		if u, err := url.Parse(to); err == nil {
			to = u.Host + u.Path
		}
		return agent.Failf(agent.CodeRefused, chat.Unavailable, "the agent's endpoint %s redirects to %s, which is not followed; put the address that is meant into the configuration", a.address(), text.Clip(to, 200))
	case res.StatusCode == 401 || res.StatusCode == 403:
		return agent.Failf(agent.CodeDenied, chat.Unavailable, "the agent's endpoint %s refused the key (status %d)%s; the operator has to look at key_env or key_file", a.address(), res.StatusCode, why)
	case res.StatusCode == 429:
		return agent.Failf(agent.CodeSlowDown, chat.SlowDown, "the agent's endpoint %s is busy (status 429)%s; try again later", a.address(), why)
	}
	fault, do := agent.CodeRefused, "look at the agent's entry in the configuration"
	switch {
	case res.StatusCode == 404:
		fault, do = agent.CodeNotFound, "look at url and model in the configuration"
	case res.StatusCode >= 500:
		fault, do = agent.CodeDown, "look at its log, then ask again"
	}
	return agent.Failf(fault, chat.Unavailable, "the agent's endpoint %s answered with status %d%s; %s", a.address(), res.StatusCode, why, do)
}

// said finds the reason in the body of a refusal.
func errorText(b []byte) string {
	var body struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	why := strings.TrimSpace(string(b))
	if json.Unmarshal(b, &body) == nil {
		for _, v := range []json.RawMessage{body.Error, body.Message, body.Detail} {
			if t := errorField(v); t != "" {
				why = t
				break
			}
		}
	} else if strings.HasPrefix(why, "<") {
		return "" // a web page
	}
	return text.Clip(strings.ToValidUTF8(strings.Join(strings.Fields(why), " "), "\uFFFD"), 300)
}

// reason reads an error that is a text or an object with a message.
func errorField(v json.RawMessage) string {
	var text string
	if json.Unmarshal(v, &text) == nil {
		return text
	}
	var o struct {
		Message string `json:"message"`
		Details string `json:"details"`
	}
	if json.Unmarshal(v, &o) == nil && o.Message != "" {
		if o.Details != "" && o.Details != o.Message {
			return o.Message + ": " + o.Details
		}
		return o.Message
	}
	if len(v) > 0 && string(v) != "null" {
		return string(v)
	}
	return ""
}

// Read reads the body; every byte is a sign of life.
func (s *stream) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, s.a.tooLarge()
	}
	if int64(len(p)) > s.left {
		p = p[:s.left]
	}
	n, err := s.res.Body.Read(p)
	s.left -= int64(n)
	if n > 0 {
		s.silence.Reset(s.a.opt.Silence)
	}
	if err != nil && err != io.EOF {
		err = s.problem(err)
	}
	return n, err
}

func (s *stream) lineTooLong() error {
	return agent.Failf(agent.CodeTooLarge, chat.TooLarge, "the agent's endpoint sent a line of more than %d MiB; it has to send smaller pieces", maxLine>>20)
}

// line returns the next line without its end; io.EOF behind the last.
func (s *stream) line() ([]byte, error) {
	var long []byte
	for {
		b, err := s.r.ReadSlice('\n')
		if err == nil && long == nil {
			return bytes.TrimRight(b, "\r\n"), nil
		}
		long = append(long, b...)
		switch {
		case err == nil:
			return bytes.TrimRight(long, "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull):
			if len(long) > maxLine {
				return nil, s.lineTooLong()
			}
		case err == io.EOF && len(long) > 0:
			s.truncated = true
			return long, nil
		default:
			return nil, err
		}
	}
}

// events calls f for every event of the stream until it ends, or f returns done. Lines with a field name that the standard
// does not have are given to other; some servers send JSON without a field name. truncated says that the stream ended
// inside the event.
func (s *stream) events(other func(name, value []byte) error, f func(e sse.Frame, truncated bool) (done bool, err error)) error {
	r := sse.NewReader(s.r, maxLine)
	r.Other = other
	for {
		e, err := r.Next()
		truncated := err == io.ErrUnexpectedEOF
		switch {
		case errors.Is(err, sse.ErrTooLarge):
			return s.lineTooLong()
		case err == io.EOF:
			return nil
		case err != nil && !truncated:
			return err
		}
		if len(e.Data) > 0 {
			if done, err := f(e, truncated); done || err != nil {
				return err
			}
		}
		if truncated {
			return nil
		}
	}
}

// bareJSON returns the JSON of a line without a field name, which an event stream splits at its first colon.
func bareJSON(name, value []byte) []byte {
	if len(name) == 0 || name[0] != '{' {
		return nil
	}
	return append(append(bytes.Clone(name), ':'), value...)
}

// all reads an answer that arrives at once.
func (s *stream) all() ([]byte, error) { return io.ReadAll(s.r) }

// hold stops the clocks while a person is asked; the function it returns starts
// them again.
func (s *stream) pauseTimers() (again func()) {
	s.silence.Stop()
	s.limit.Stop()
	return func() {
		s.silence.Reset(s.a.opt.Silence)
		s.limit.Reset(s.a.opt.Limit)
	}
}

// close lets the connection go.
func (s *stream) close() {
	if s.silence != nil {
		s.silence.Stop()
		s.limit.Stop()
	}
	s.end(nil)
	if s.res != nil {
		s.res.Body.Close()
	}
}

// problem words what went wrong with the connection.
func (s *stream) problem(err error) error {
	if s.turn.Err() != nil {
		return context.Cause(s.turn)
	}
	return s.a.problem(context.Cause(s.until), err)
}

// problem words a failed connection; cause says who gave up.
func (a *Agent) problem(cause, err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(cause, errSilence):
		return agent.Failf(agent.CodeTimeout, chat.Unavailable, "the agent's endpoint %s was silent for %s and was given up; ask again, or raise silence in the configuration", a.address(), a.opt.Silence).Because(errSilence)
	case errors.Is(cause, errLimit):
		return agent.Failf(agent.CodeTimeout, chat.Unavailable, "the agent's endpoint %s did not finish within %s and was given up; ask for less at once, or raise limit in the configuration", a.address(), a.opt.Limit)
	case errors.Is(err, syscall.ECONNREFUSED):
		return agent.Failf(agent.CodeDown, chat.Unavailable, "the agent's endpoint %s does not take connections; is it running?", a.address()).Because(err)
	case chat.CodeOf(err) == chat.TooLarge:
		return err
	case errors.As(err, &timeout) && timeout.Timeout():
		return agent.Failf(agent.CodeTimeout, chat.Unavailable, "the agent's endpoint %s did not answer in time; ask again, or raise wait in the configuration", a.address()).Because(err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return agent.Failf(agent.CodeDown, chat.Unavailable, "the agent's endpoint %s cannot be reached; is the address right?", a.address()).Because(err)
	}
	return a.broken(err)
}

// broken says that an answer broke off.
func (a *Agent) broken(err error) error {
	e := agent.Failf(agent.CodeCutOff, chat.Unavailable, "the agent's endpoint %s broke off in the middle of its answer; what there is of it is kept. Ask again", a.address())
	if err != nil {
		return e.Because(err)
	}
	return e
}

// garbled says that an answer cannot be read.
func (a *Agent) unreadable(what string, err error) error {
	return agent.Failf(agent.CodeUnreadable, chat.Unavailable, "the agent's endpoint %s sent something that cannot be read: %s; is it an endpoint of kind %s?", a.address(), what, a.opt.Protocol).Because(err)
}

// tooLarge says that an answer has no end.
func (a *Agent) tooLarge() error {
	return agent.Failf(agent.CodeTooLarge, chat.TooLarge, "the answer of the agent's endpoint is larger than %d MiB; raise max_mib in the configuration if it may be", a.opt.Max>>20)
}

// silent says that an answer has nothing in it.
func (a *Agent) emptyAnswer() error {
	return agent.Failf(agent.CodeEmpty, chat.Unavailable, "the agent's endpoint %s ended its answer without saying anything; ask again", a.address())
}

// complaint is an error that the endpoint itself reports.
func (a *Agent) reported(message string) error {
	if message = strings.TrimSpace(strings.ToValidUTF8(message, "\uFFFD")); message == "" {
		message = "it gave no reason"
	}
	return agent.Failf(agent.CodeReported, chat.Unavailable, "the agent reports an error: %s", text.Clip(message, 1000))
}

// shown is the endpoint's address as people may see it: without a password or a
// query.
func (a *Agent) address() string {
	return fmt.Sprintf("%s://%s%s", a.url.Scheme, a.url.Host, a.url.Path)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
