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
const marksFor = 24 * time.Hour

// maxMarksFile is the size at which the file is written anew, unless what is known
// takes more than half of it: then it may grow to twice that, because writing all of
// it for each note would stop everybody.
const maxMarksFile = 4 << 20

// marks keeps places in a file, one line per change, so that a client can go on
// where it stopped also after a kill. They are not facts: a lost one costs a
// repeated sentence. There is no text in them, and no id of a session.
type marks struct {
	path string
	now  func() time.Time
	log  *slog.Logger

	mu   sync.Mutex // also held while a line is written: lines must be in order, and go no further than the kernel
	file *os.File
	size int64
	most int64 // the size at which it is written anew
	all  map[markKey]markLine
}

type markKey struct {
	key string
	no  uint64
}

type markLine struct {
	at    place
	when  time.Time
	state departure
}

// departure is what became of a client when its place was noted.
type departure string

// The ways to go.
const (
	following departure = "live"   // it has not gone
	cutOff    departure = "left"   // its connection broke
	parted    departure = "parted" // its page was closed, or is loaded again
	turned    departure = "turned" // it closed the connection itself
)

// openMarks opens the file in dir. Without one, or when it cannot be written,
// places live as long as the process.
func openMarks(dir string, now func() time.Time, log *slog.Logger) *marks {
	m := &marks{now: now, log: log, all: map[markKey]markLine{}}
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
func (m *marks) read() {
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
		k, l, drop, ok := parseMark(lines.Text())
		switch {
		case !ok:
			damaged++
		case drop:
			delete(m.all, k)
		case m.now().Sub(l.when) < marksFor:
			if l.state == following {
				l.state, l.when = cutOff, m.now() // the end of that process ended it
			}
			m.all[k] = l
		}
	}
}

func parseMark(s string) (k markKey, l markLine, drop, ok bool) {
	at := strings.LastIndexByte(s, ' ') + 1
	fields := strings.Fields(s)
	if len(fields) != 9 || fields[8] != markSum(s[:at]) {
		return k, l, false, false
	}
	no, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return k, l, false, false
	}
	k = markKey{fields[0], no}
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
	return k, markLine{place{cursor, seqs[0], seqs[1], seqs[2]}, time.Unix(when, 0), departure(fields[7])}, false, err == nil
}

func appendMark(b []byte, k markKey, l markLine) []byte {
	return appendMarkSum(b, "%s %d %s %d %d %d %d %s ", k.key, k.no, l.at.Cursor, l.at.Base, l.at.Held, l.at.Shown, l.when.Unix(), l.state)
}

// appendMarkSum ends a line with its checksum.
func appendMarkSum(b []byte, format string, args ...any) []byte {
	line := fmt.Sprintf(format, args...)
	return append(append(append(b, line...), markSum(line)...), '\n')
}

func markSum(line string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(line))) }

// load returns what is known, by key and in the order of numbers.
func (m *marks) load() map[string][]leftover {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string][]leftover{}
	for k, l := range m.all {
		list := append(out[k.key], leftover{no: k.no, place: l.at, when: l.when, how: l.state})
		for i := len(list) - 1; i > 0 && list[i].no < list[i-1].no; i-- {
			list[i], list[i-1] = list[i-1], list[i]
		}
		out[k.key] = list
	}
	return out
}

// note keeps a place.
func (m *marks) note(key string, no uint64, at place, state departure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.path == "" {
		return
	}
	k, l := markKey{key, no}, markLine{at, m.now(), state}
	m.all[k] = l
	m.write(appendMark(nil, k, l))
}

// drop forgets a place.
func (m *marks) drop(key string, no uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.path == "" {
		return
	}
	delete(m.all, markKey{key, no})
	m.write(appendMarkSum(nil, "%s %d - 0 0 0 0 - ", key, no))
}

// write appends a line; the caller holds mu.
func (m *marks) write(line []byte) {
	if m.file == nil {
		return
	}
	n, err := m.file.Write(line)
	m.size += int64(n)
	if err == nil && m.size > m.most {
		err = m.rewrite()
	}
	if err != nil {
		m.log.Warn("a delivery mark could not be written", "err", err)
		m.file.Close()
		m.file, m.path = nil, ""
	}
}

// rewrite replaces the file by what is known and not too old.
func (m *marks) rewrite() error {
	var b []byte
	for k, l := range m.all {
		if m.now().Sub(l.when) >= marksFor {
			delete(m.all, k)
			continue
		}
		b = appendMark(b, k, l)
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
	m.file, m.size, m.most = f, int64(len(b)), max(maxMarksFile, 2*int64(len(b)))
	return err
}
