package nemo

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
)

// Marks older than this are of no use: the client does not come back.
const pointLifetime = 24 * time.Hour

// maxPointFile is the size at which the file is written anew, unless what is known
// takes more than half of it: then it may grow to twice that, because writing all of
// it for each note would stop everybody.
const maxPointFile = 4 << 20

// pointFile keeps places in a file, one line per change, so that a client can go on
// where it stopped also after a kill. They are not facts: a lost one costs a
// repeated sentence. There is no text in them, and no id of a session.
type pointFile struct {
	path string
	now  func() time.Time
	log  *slog.Logger

	mu        sync.Mutex // also held while a line is written: lines must be in order, and go no further than the kernel
	file      *os.File
	size      int64
	rewriteAt int64 // the size at which it is written anew
	points    map[pointKey]point
}

type pointKey struct {
	key string
	id  uint64
}

type point struct {
	at    position
	when  time.Time
	state reason
}

// reason is what became of a client when its place was noted.
type reason string

// The ways to go.
const (
	stillConnected reason = "live"   // it has not gone
	connectionLost reason = "left"   // its connection broke
	pageUnloaded   reason = "parted" // its page was closed, or is loaded again
	clientClosed   reason = "turned" // it closed the connection itself
)

// openPointFile opens the file in dir. Without one, or when it cannot be written,
// places live as long as the process.
func openPointFile(dir string, now func() time.Time, log *slog.Logger) *pointFile {
	m := &pointFile{now: now, log: log, points: map[pointKey]point{}}
	if dir == "" {
		return m
	}
	m.path = filepath.Join(dir, "nemo-places")
	m.read()
	if err := m.rewrite(); err != nil {
		log.Warn("delivery marks cannot be kept; after a restart clients may see text twice", "err", err)
		m.path = ""
	}
	return m
}

// read takes in what an earlier process left. A line that was cut off is passed
// over.
func (m *pointFile) read() {
	f, err := os.Open(m.path)
	if err != nil {
		return
	}
	defer f.Close()
	lines, damaged := bufio.NewScanner(f), 0
	defer func() {
		if damaged > 0 {
			m.log.Warn("delivery marks are damaged and were dropped; clients may see text twice", "file", m.path, "lines", damaged, "err", lines.Err())
		}
	}()
	for lines.Scan() {
		k, l, drop, ok := parsePoint(lines.Text())
		switch {
		case !ok:
			damaged++
		case drop:
			delete(m.points, k)
		case m.now().Sub(l.when) < pointLifetime:
			if l.state == stillConnected {
				l.state, l.when = connectionLost, m.now() // the end of that process ended it
			}
			m.points[k] = l
		}
	}
}

func parsePoint(s string) (k pointKey, l point, drop, ok bool) {
	at := strings.LastIndexByte(s, ' ') + 1
	fields := strings.Fields(s)
	if len(fields) != 9 || fields[8] != checksum(s[:at]) {
		return k, l, false, false
	}
	no, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return k, l, false, false
	}
	k = pointKey{fields[0], no}
	if fields[2] == "-" {
		return k, l, true, true
	}
	cursor, err := chat.ParseCursor(fields[2])
	if err != nil {
		return k, l, false, false
	}
	var seqs [3]chat.Seq // base, held and shown
	for i := range seqs {
		n, err := strconv.ParseUint(fields[3+i], 10, 64)
		if err != nil {
			return k, l, false, false
		}
		seqs[i] = chat.Seq(n)
	}
	when, err := strconv.ParseInt(fields[6], 10, 64)
	return k, point{position{cursor, seqs[0], seqs[1], seqs[2]}, time.Unix(when, 0), reason(fields[7])}, false, err == nil
}

func appendPoint(b []byte, k pointKey, l point) []byte {
	return appendLine(b, "%s %d %s %d %d %d %d %s ", k.key, k.id, l.at.Cursor, l.at.Base, l.at.Held, l.at.Shown, l.when.Unix(), l.state)
}

// appendLine ends a line with its checksum.
func appendLine(b []byte, format string, args ...any) []byte {
	line := fmt.Sprintf(format, args...)
	return append(append(append(b, line...), checksum(line)...), '\n')
}

func checksum(line string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(line))) }

// load returns what is known, by key and in the order of numbers.
func (m *pointFile) load() map[string][]departed {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string][]departed{}
	for k, l := range m.points {
		list := append(out[k.key], departed{id: k.id, position: l.at, when: l.when, reason: l.state})
		for i := len(list) - 1; i > 0 && list[i].id < list[i-1].id; i-- {
			list[i], list[i-1] = list[i-1], list[i]
		}
		out[k.key] = list
	}
	return out
}

// save keeps a place.
func (m *pointFile) save(key string, no uint64, at position, state reason) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.path == "" {
		return
	}
	k, l := pointKey{key, no}, point{at, m.now(), state}
	m.points[k] = l
	m.write(appendPoint(nil, k, l))
}

// remove forgets a place.
func (m *pointFile) remove(key string, no uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.path == "" {
		return
	}
	delete(m.points, pointKey{key, no})
	m.write(appendLine(nil, "%s %d - 0 0 0 0 - ", key, no))
}

// write appends a line; the caller holds mu.
func (m *pointFile) write(line []byte) {
	if m.file == nil {
		return
	}
	n, err := m.file.Write(line)
	m.size += int64(n)
	if err == nil && m.size > m.rewriteAt {
		err = m.rewrite()
	}
	if err != nil {
		m.log.Warn("a delivery mark could not be written", "err", err)
		m.file.Close()
		m.file, m.path = nil, ""
	}
}

// rewrite replaces the file by what is known and not too old.
func (m *pointFile) rewrite() error {
	var b []byte
	for k, l := range m.points {
		if m.now().Sub(l.when) >= pointLifetime {
			delete(m.points, k)
			continue
		}
		b = appendPoint(b, k, l)
	}
	part := m.path + ".part"
	if err := os.WriteFile(part, b, 0o600); err != nil {
		return err
	}
	if err := os.Rename(part, m.path); err != nil {
		return err
	}
	if m.file != nil {
		m.file.Close()
	}
	f, err := os.OpenFile(m.path, os.O_WRONLY|os.O_APPEND, 0o600)
	m.file, m.size, m.rewriteAt = f, int64(len(b)), max(maxPointFile, 2*int64(len(b)))
	return err
}
