package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A log of Pebble is blocks of 32 KiB; a block holds chunks, each a header and a
// part of a batch, and zeros where no header fits. The header is a checksum of
// all behind the size, the size, a type, the number of the log file, and how
// many bytes of the file were synced when the chunk was written.
const (
	logBlock       = 32 << 10
	logHeader      = 4 + 2 + 1 + 4 + 8
	logTypes       = 9 // the first of four types: whole, beginning, middle, end
	logChecksumAdd = 0xa282ead8
)

// logDamage names a log file that cannot be read to its end.
type logDamage struct {
	file string
	at   int
}

func (d logDamage) Error() string {
	return fmt.Sprintf("%s cannot be read from byte %d on, although more of it was stored", d.file, d.at)
}

func (logDamage) Unwrap() error { return pebble.ErrCorruption }

// checkLogs looks for damage in the log files that Pebble would take for the end
// of the log, and then drop all behind it: it looks no further than the block
// where reading ends. What it finds is certain: a chunk says that the unreadable
// part was synced before the chunk itself was written. A write that a power cut
// left in part is never such a part.
//
// It needs no inventory, which after a power cut can be older than the log. The
// caller holds Pebble's lock.
func checkLogs(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return nil // Pebble tells why
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		number, err := strconv.ParseUint(strings.TrimSuffix(name, ".log"), 10, 32)
		if err != nil || !isLog(name) {
			continue
		}
		b, err := readWhole(fs, fs.PathJoin(dir, name))
		if err != nil {
			return err
		}
		if at, damaged := lostBehind(b, uint32(number)); damaged {
			return logDamage{name, at}
		}
	}
	return nil
}

func readWhole(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, info.Size())
	n, err := io.ReadFull(f, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return b[:n], err
}

// lostBehind finds where a log cannot be read any more and reports whether
// something was stored there.
func lostBehind(b []byte, number uint32) (at int, damaged bool) {
	for at < len(b) {
		if end := min(len(b), blockEnd(at)); blockEnd(at)-at < logHeader && allZero(b[at:end]) {
			at = end
			continue
		}
		size, _ := chunkAt(b, at, number)
		if size == 0 {
			break
		}
		at += size
	}
	want := binary.LittleEndian.AppendUint32(nil, number)
	syncs, last := 0, uint64(0)
	for from := at + 1; from < len(b); {
		i := bytes.Index(b[from:], want) // the number stands in the header
		if i < 0 {
			break
		}
		from += i
		size, synced := chunkAt(b, from-7, number)
		if size == 0 {
			from++
			continue
		}
		if syncs == 0 || synced > last {
			syncs, last = syncs+1, synced
		}
		// Pebble counts less than it synced, because it leaves out most blocks
		// that were full. But it syncs all that is written, one sync after the
		// other: the third that is told of behind a place began when that was
		// written.
		if synced > uint64(at) || syncs == 3 {
			return at, true
		}
		from += size
	}
	return at, false
}

// chunkAt returns the size of the chunk that begins at at, and what it says of
// the bytes that were synced; the size is 0 when there is none.
func chunkAt(b []byte, at int, number uint32) (size int, synced uint64) {
	if at < 0 {
		return 0, 0
	}
	end := min(len(b), blockEnd(at))
	if end-at < logHeader {
		return 0, 0
	}
	h := b[at:end]
	size = logHeader + int(binary.LittleEndian.Uint16(h[4:]))
	if h[6] < logTypes || h[6] > logTypes+3 || binary.LittleEndian.Uint32(h[7:]) != number || size > len(h) {
		return 0, 0
	}
	sum := crc32.Checksum(h[6:size], castagnoli)
	if binary.LittleEndian.Uint32(h) != (sum>>15|sum<<17)+logChecksumAdd {
		return 0, 0
	}
	return size, binary.LittleEndian.Uint64(h[11:])
}

// blockEnd is where the block of a byte ends.
func blockEnd(at int) int { return at - at%logBlock + logBlock }

func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
