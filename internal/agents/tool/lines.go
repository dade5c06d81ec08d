package tool

import (
	"bytes"
	"log/slog"
	"sync"
)

// lines writes what a program says on its error output to the log, one line
// each. Long lines are cut.
type lines struct {
	log    *slog.Logger
	server string

	mu   sync.Mutex
	rest []byte
}

const maxLine = 1024

// Write takes a piece of output.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok && len(l.rest) < maxLine {
			return len(p), nil
		}
		if !ok {
			line, rest = l.rest, nil
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			l.log.Debug("an MCP server says", "server", l.server, "line", string(line[:min(len(line), maxLine)]))
		}
		l.rest = append([]byte(nil), rest...)
		if len(l.rest) == 0 {
			return len(p), nil
		}
	}
}
