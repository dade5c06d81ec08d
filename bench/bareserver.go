package main

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/klauspost/compress/gzip"
)

// bareFlag is the argument that makes this program the bare server.
const bareFlag = "-serve-bare"

// bareServer has the input and output of Parley and nothing else: it takes the requests of package load, stores events in
// Pebble with fsync, and sends them to readers with one write each. It has no rules, checks nothing, and a slow reader
// stops its writers. Its cost is the least that a Go server with a goroutine per connection can have.
type bareServer struct {
	db       pebbleDB
	sync     *pebble.WriteOptions
	mu       sync.Mutex
	sessions map[string]*bareSession
}

// bareSession is held locked while an event is stored and sent, which keeps the order.
type bareSession struct {
	mu      sync.Mutex
	key     []byte
	last    uint64
	readers map[*bareReader]struct{}
	out     []byte
}

type bareReader struct {
	conn net.Conn
	sse  bool
}

// bareEnvelope makes a stored event about as large as one of Parley, which has ids, an actor, a time and hashes.
var bareEnvelope = []byte(`{"seq":0,"filler":"` + strings.Repeat("0", 270) + `",`)

func serveBare(dir, addr string) error {
	db, err := openPebble(dir)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	over := terminated()
	go (&bareServer{db: db, sync: pebble.Sync, sessions: map[string]*bareSession{}}).serve(l)
	<-over
	return l.Close() // connections may still use the store, which needs no end in order
}

// serve accepts connections until the listener is closed.
func (s *bareServer) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			if !s.connection(c) {
				c.Close()
			}
		}()
	}
}

func (s *bareServer) session(id string) *bareSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sessions[id]
	if x == nil {
		x = &bareSession{key: append([]byte(id), 0), readers: map[*bareReader]struct{}{}}
		s.sessions[id] = x
	}
	return x
}

// connection serves requests until the connection ends or has become that of a reader, which keeps it open.
func (s *bareServer) connection(c net.Conn) (kept bool) {
	r := bufio.NewReaderSize(c, 4<<10)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return false
		}
		method, path, _ := strings.Cut(line, " ")
		path, _, _ = strings.Cut(path, " ")
		var length int
		var key string
		for {
			l, err := r.ReadSlice('\n')
			if err != nil {
				return false
			}
			if len(l) <= 2 {
				break
			}
			name, value, _ := strings.Cut(strings.TrimRight(string(l), "\r\n"), ": ")
			switch name {
			case "Content-Length":
				if length, err = strconv.Atoi(value); err != nil {
					return false
				}
			case "Sec-WebSocket-Key":
				key = value
			}
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(r, body); err != nil {
			return false
		}
		id, rest, _ := strings.Cut(strings.TrimPrefix(path, "/parley/v1/sessions/"), "/")
		var answer []byte
		switch {
		case key != "":
			sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
			accept := base64.StdEncoding.EncodeToString(sum[:])
			if _, err := fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", accept); err == nil {
				return s.socket(c, r)
			}
			return false
		case strings.HasPrefix(rest, "stream"):
			head := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
			return s.session(id).add(s.db, &bareReader{conn: c, sse: true}, head, strings.Contains(rest, "after="))
		case method == "POST" && rest == "events":
			err = s.append(id, body)
		case strings.HasPrefix(rest, "events?limit="):
			n, _, _ := strings.Cut(strings.TrimPrefix(rest, "events?limit="), "&")
			answer, err = s.list(id, n)
		}
		if err != nil {
			return false
		}
		answer = append(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(answer)), answer...)
		if _, err := c.Write(answer); err != nil {
			return false
		}
	}
}

// socket serves the frames of a WebSocket. Masks are zero, as package load writes them.
func (s *bareServer) socket(c net.Conn, r *bufio.Reader) (kept bool) {
	ok := serverFrame(nil, []byte(`{"op":"ok","id":1}`))
	var buf []byte
	for {
		var head [14]byte
		if _, err := io.ReadFull(r, head[:2]); err != nil {
			return false
		}
		n, more := int(head[1]&0x7f), map[byte]int{126: 2, 127: 8}[head[1]&0x7f]
		if _, err := io.ReadFull(r, head[2:2+more+4]); err != nil {
			return false
		}
		switch more {
		case 2:
			n = int(binary.BigEndian.Uint16(head[2:]))
		case 8:
			n = int(binary.BigEndian.Uint64(head[2:]))
		}
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		buf = buf[:n]
		if _, err := io.ReadFull(r, buf); err != nil {
			return false
		}
		_, id, _ := bytes.Cut(buf, []byte(`"session_id":"`))
		id, rest, _ := bytes.Cut(id, []byte(`"`))
		var err error
		switch {
		case bytes.HasPrefix(buf, []byte(`{"op":"preview"`)):
			s.session(string(id)).send(buf)
			continue
		case bytes.HasPrefix(buf, []byte(`{"op":"append"`)):
			if err = s.append(string(id), bytes.TrimSuffix(bytes.TrimPrefix(rest, []byte(`,"events":`)), []byte("}"))); err == nil {
				_, err = c.Write(ok)
			}
		case bytes.HasPrefix(buf, []byte(`{"op":"watch"`)):
			return s.session(string(id)).add(s.db, &bareReader{conn: c}, ok, bytes.Contains(rest, []byte(`"after"`)))
		}
		if err != nil {
			return false
		}
	}
}

// append stores a draft or an array of drafts and then sends them to the readers.
func (s *bareServer) append(id string, drafts []byte) error {
	x := s.session(id)
	x.mu.Lock()
	defer x.mu.Unlock()
	if drafts[0] == '[' {
		drafts = drafts[1 : len(drafts)-1]
	}
	batch := s.db.NewBatch()
	defer batch.Close()
	var events [][]byte
	for part := range bytes.SplitSeq(drafts, []byte(`,{"type"`)) {
		if len(events) > 0 {
			part = append([]byte(`{"type"`), part...)
		}
		x.last++
		event := append(bytes.Clone(bareEnvelope), part[1:]...)
		events = append(events, event)
		if err := batch.Set(binary.BigEndian.AppendUint64(bytes.Clone(x.key), x.last), event, nil); err != nil {
			return err
		}
	}
	if err := errors.Join(batch.Set(x.key, binary.BigEndian.AppendUint64(make([]byte, 0, 32), x.last)[:32], nil), batch.Commit(s.sync)); err != nil {
		return err
	}
	x.sendLocked(events...)
	return nil
}

// list reads the last n events, compressed.
func (s *bareServer) list(id, n string) ([]byte, error) {
	limit, err := strconv.Atoi(n)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z := gzips.Get().(*gzip.Writer)
	defer gzips.Put(z)
	z.Reset(&out)
	x := s.session(id)
	it, err := s.db.NewIter(x.events())
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.Last(); ok && limit > 0; ok = it.Prev() {
		if _, err := z.Write(it.Value()); err != nil {
			return nil, err
		}
		limit--
	}
	err = errors.Join(it.Error(), z.Close())
	return out.Bytes(), err
}

var gzips = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level exists, and Parley has the same
	return w
}}

// events is the range of the stored events.
func (x *bareSession) events() *pebble.IterOptions {
	return &pebble.IterOptions{LowerBound: append(bytes.Clone(x.key), 0), UpperBound: append(bytes.Clone(x.key), 0xff)}
}

// add adds a reader, which first gets the answer and all stored events if it wants them. It has everything that is appended
// after the answer. It reports whether the reader was added.
func (x *bareSession) add(db pebbleDB, r *bareReader, answer []byte, all bool) bool {
	var sent uint64
	var err error
	if all { // without the lock, so that readers that come back do not wait for each other
		if _, err = r.conn.Write(answer); err == nil {
			sent, err = x.sendStored(db, r, 0)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case err != nil:
	case !all:
		_, err = r.conn.Write(answer)
	case x.last > sent:
		_, err = x.sendStored(db, r, sent)
	}
	if err != nil {
		return false
	}
	x.readers[r] = struct{}{}
	// The goroutine of a reader needs only a small stack and no buffer: nothing but the end of the connection is expected.
	go func() {
		var b [1]byte
		for err := error(nil); err == nil; {
			_, err = r.conn.Read(b[:])
		}
		x.remove(r)
		r.conn.Close()
	}()
	return true
}

// sendStored sends the events after one and returns the last.
func (x *bareSession) sendStored(db pebbleDB, r *bareReader, after uint64) (last uint64, err error) {
	o := x.events()
	o.LowerBound = binary.BigEndian.AppendUint64(bytes.Clone(x.key), after+1)
	it, err := db.NewIter(o)
	if err != nil {
		return after, err
	}
	defer it.Close()
	last = after
	out := make([]byte, 0, 64<<10)
	for ok := it.First(); ok; ok = it.Next() {
		last++
		if out = r.frame(out, it.Value()); len(out) > 60<<10 {
			if _, err := r.conn.Write(out); err != nil {
				return last, err
			}
			out = out[:0]
		}
	}
	_, err = r.conn.Write(out)
	return last, errors.Join(err, it.Error())
}

func (x *bareSession) remove(r *bareReader) {
	x.mu.Lock()
	delete(x.readers, r)
	x.mu.Unlock()
}

func (x *bareSession) send(events ...[]byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sendLocked(events...)
}

// sendLocked writes events to all readers. A reader whose connection is broken is removed when its goroutine ends.
func (x *bareSession) sendLocked(events ...[]byte) {
	for _, sse := range []bool{false, true} {
		x.out = x.out[:0]
		for r := range x.readers {
			if r.sse != sse {
				continue
			}
			if len(x.out) == 0 {
				for _, e := range events {
					x.out = r.frame(x.out, e)
				}
			}
			_, _ = r.conn.Write(x.out)
		}
	}
}

// frame appends an event as the reader gets it.
func (r *bareReader) frame(dst, event []byte) []byte {
	if r.sse {
		return append(append(append(dst, "data: "...), event...), "\n\n"...)
	}
	return serverFrame(dst, event)
}

// serverFrame appends a text frame without a mask.
func serverFrame(dst, payload []byte) []byte {
	switch n := len(payload); {
	case n < 126:
		dst = append(dst, 0x81, byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0x81, 126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, 0x81, 127), uint64(n))
	}
	return append(dst, payload...)
}
