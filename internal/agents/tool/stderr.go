package tool

import (
	"bytes"
	"log/slog"
	"sync"
)

// stderrLog writes the error output of a program to the log, line by line. Longer
// lines than maxLine are split.
type stderrLog struct {
	log    *slog.Logger
	server string

	mu   sync.Mutex
	rest []byte
}

const maxLine = 1024

// Write logs the lines that are complete.
func (l *stderrLog) Write(p []byte) (int, error) {
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
			l.log.Debug("error output of an MCP server", "server", l.server, "line", string(line[:min(len(line), maxLine)]))
		}
		l.rest = append([]byte(nil), rest...)
		if len(l.rest) == 0 {
			return len(p), nil
		}
	}
}
