package nemo

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
)

// maxPointFile is the size at which the file is rewritten, unless the points take more than half of it: then it may grow
// to twice their size, so that not every change rewrites it.
const maxPointFile = 4 << 20

// pointFile keeps resume points over a restart or a kill: one line per change; of the lines with the same key and node the last one counts.
// There is no fsync, because a lost line only repeats some text. Lines contain no text and no session id. It is guarded by the
// lock of resumePoints.
type pointFile struct {
	path      string // "" when nothing is kept
	log       *slog.Logger
	file      *os.File
	size      int64
	rewriteAt int64
}

// savedPoint is one line: the clients of a conversation on one node.
type savedPoint struct {
	key    string
	groups []clients // in the order of their times; if clients are connected, the last group, which may be empty, is theirs
	moves  uint64    // the number of the last move, see nodes.go
	node   string    // whose clients they are; "" means this one
}

// last is the last group.
func (s savedPoint) last() clients {
	if len(s.groups) == 0 {
		return clients{}
	}
	return s.groups[len(s.groups)-1]
}

// remembered returns the groups of clients that are not too old.
func (s savedPoint) remembered(now time.Time) (list []clients) {
	for _, g := range s.groups {
		if g.count > 0 && now.Sub(g.when) < pointLifetime {
			list = append(list, g)
		}
	}
	return list
}

// openPointFile returns the file in dir, and the points that an earlier process left in it, in the order of their changes.
func openPointFile(dir string, log *slog.Logger) (*pointFile, []savedPoint) {
	f := &pointFile{log: log}
	if dir == "" {
		return f, nil
	}
	f.path = filepath.Join(dir, "nemo-resume-points")
	old, err := os.Open(f.path)
	if err != nil {
		return f, nil
	}
	defer old.Close()
	var points []savedPoint
	lines, damaged := bufio.NewScanner(old), 0
	for lines.Scan() {
		if p, ok := parsePoint(lines.Text()); ok {
			points = append(points, p)
		} else {
			damaged++
		}
	}
	if damaged > 0 || lines.Err() != nil {
		log.Warn("damaged resume points were dropped; clients may see text twice", "file", f.path, "lines", damaged, "err", lines.Err())
	}
	return f, points
}

func parsePoint(line string) (p savedPoint, ok bool) {
	fields := strings.Fields(line)
	n := len(fields) - 1
	if n < 3+groupFields || n%groupFields != 3 || fields[n] != checksum(line[:strings.LastIndexByte(line, ' ')+1]) {
		return p, false
	}
	p.key = fields[0]
	for rest := fields[1:]; len(rest) > groupFields; rest = rest[groupFields:] {
		g, ok := parseGroup(rest)
		if !ok {
			return p, false
		}
		p.groups = append(p.groups, g)
	}
	var err error
	p.moves, err = strconv.ParseUint(fields[n-2], 10, 64)
	p.node = strings.TrimPrefix(fields[n-1], "@")
	return p, err == nil
}

const groupFields = 7

func parseGroup(fields []string) (g clients, ok bool) {
	var err error
	if g.count, err = strconv.Atoi(fields[0]); err != nil {
		return g, false
	}
	if g.at.Cursor, err = chat.ParseCursor(fields[1]); err != nil {
		return g, false
	}
	for i, seq := range []*chat.Seq{&g.at.Base, &g.at.Held, &g.at.Shown} {
		n, err := strconv.ParseUint(fields[2+i], 10, 64)
		if err != nil {
			return g, false
		}
		*seq = chat.Seq(n)
	}
	when, err := strconv.ParseInt(fields[5], 10, 64)
	g.when, g.state = time.UnixMicro(when), clientState(fields[6])
	return g, err == nil
}

func appendPoint(b []byte, p savedPoint) []byte {
	line := p.key
	for _, g := range p.groups {
		line += fmt.Sprintf(" %d %s %d %d %d %d %s", g.count, g.at.Cursor, g.at.Base, g.at.Held, g.at.Shown, g.when.UnixMicro(), g.state)
	}
	line += fmt.Sprintf(" %d @%s ", p.moves, p.node)
	return append(append(append(b, line...), checksum(line)...), '\n')
}

func checksum(line string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(line))) }

// append writes a change. all are the points to keep when the file has to be rewritten.
func (f *pointFile) append(p savedPoint, all iter.Seq[savedPoint]) {
	if f.file == nil {
		return
	}
	n, err := f.file.Write(appendPoint(nil, p))
	f.size += int64(n)
	if err == nil && f.size > f.rewriteAt {
		err = f.rewrite(all)
	}
	if err != nil {
		f.fail(err)
	}
}

// fail stops writing points: from now on they are lost when the process ends.
func (f *pointFile) fail(err error) {
	f.log.Warn("resume points cannot be kept; after a restart clients may see text twice", "err", err)
	if f.file != nil {
		f.file.Close()
	}
	f.file = nil
}

// rewrite replaces the file.
func (f *pointFile) rewrite(all iter.Seq[savedPoint]) error {
	var b []byte
	for p := range all {
		b = appendPoint(b, p)
	}
	part := f.path + ".part"
	if err := os.WriteFile(part, b, 0o600); err != nil {
		return err
	}
	if err := os.Rename(part, f.path); err != nil {
		return err
	}
	if f.file != nil {
		f.file.Close()
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND, 0o600)
	f.file, f.size, f.rewriteAt = file, int64(len(b)), max(maxPointFile, 2*int64(len(b)))
	return err
}
