package httpagent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/sse"
)

// maxLine is the longest line of a stream.
const maxLine = 4 << 20

// stream reads the response of an endpoint, with limits on size and time.
type stream struct {
	a       *Agent
	res     *http.Response
	left    int64 // bytes until the size limit
	turnCtx context.Context
	ctx     context.Context // of the request
	cancel  context.CancelCauseFunc
	idle    *time.Timer // cancels with errIdle
	limit   *time.Timer // cancels with errLimit
}

// Read reads the body. Every byte restarts the idle timer.
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
		s.idle.Reset(s.a.opt.Idle)
	}
	if err != nil && err != io.EOF {
		err = s.connectionError(err)
	}
	return n, err
}

func (s *stream) lineTooLong() error {
	return agent.Failf(agent.CodeTooLarge, chat.TooLarge, "the agent's endpoint sent a line of more than %d MiB; it has to send smaller pieces", maxLine>>20)
}

// lines calls f for every line that is not empty until the stream ends or f
// returns done. truncated reports that the stream ended inside the line.
func (s *stream) lines(f func(line []byte, truncated bool) (done bool, err error)) error {
	truncated := false
	scan := bufio.NewScanner(s)
	scan.Buffer(nil, maxLine)
	scan.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		truncated = atEOF && bytes.IndexByte(data, '\n') < 0
		return bufio.ScanLines(data, atEOF)
	})
	for scan.Scan() && (!truncated || scan.Err() == nil) {
		line := bytes.TrimSpace(scan.Bytes())
		if len(line) == 0 {
			continue
		}
		if done, err := f(line, truncated); done || err != nil {
			return err
		}
	}
	if errors.Is(scan.Err(), bufio.ErrTooLong) {
		return s.lineTooLong()
	}
	return scan.Err()
}

// events calls f for every event of the stream until the stream ends or f returns
// done. other gets the lines with a field name that the standard does not have.
// truncated reports that the stream ended inside the event.
func (s *stream) events(other func(name, value []byte) error, f func(e sse.Frame, truncated bool) (done bool, err error)) error {
	r := sse.NewReader(s, maxLine)
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

// bareJSON returns the JSON of a line without a field name, which some servers
// send. The event stream splits it at its first colon.
func bareJSON(name, value []byte) []byte {
	if len(name) == 0 || name[0] != '{' {
		return nil
	}
	return append(append(bytes.Clone(name), ':'), value...)
}

// pauseTimers stops the timers while a person is asked; resume starts them again.
func (s *stream) pauseTimers() (resume func()) {
	s.idle.Stop()
	s.limit.Stop()
	return func() {
		s.idle.Reset(s.a.opt.Idle)
		s.limit.Reset(s.a.opt.Limit)
	}
}

func (s *stream) close() {
	if s.idle != nil {
		s.idle.Stop()
		s.limit.Stop()
	}
	s.cancel(nil)
	if s.res != nil {
		s.res.Body.Close()
	}
}

// connectionError is the error of a failed connection, or the reason why the turn
// was cancelled.
func (s *stream) connectionError(err error) error {
	if s.turnCtx.Err() != nil {
		return context.Cause(s.turnCtx)
	}
	return s.a.connectionError(context.Cause(s.ctx), err)
}
