// Package pebblelog finds damage in the write-ahead log of Pebble that Pebble
// itself takes for the end of the log.
//
// Pebble reads a log file up to the first chunk that it cannot read and drops what
// follows, because a crash leaves a log like that. A changed byte in the middle of
// a log would therefore lose the events behind it without an error.
//
// Check reads the bytes of a log file and looks for chunks behind the unreadable
// part. A chunk says how many bytes of its file were synced when it was written.
// If that covers the unreadable part, the part was on disk: it is damaged. A write
// that a power cut left in part was never synced, so it is not reported.
//
// The check needs nothing but the log file. After a power cut the inventory of the
// journal (see package journal) can be older than the log, so it cannot replace
// this check.
//
// # Format
//
// A log file is a sequence of blocks of 32 KiB. A block holds chunks, and zeros
// where no chunk header fits. A chunk is a header and a part of a batch. The header
// has a checksum of what follows the size, the size, a type, the number of the log
// file, and the synced bytes. The format is internal to Pebble, so this package is
// written for one version of it: see EngineVersion.
package pebblelog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// EngineVersion is the version of Pebble whose log format this package reads. A
// test compares it with go.mod. When Pebble is updated, compare its record package
// with this file, run the tests of this package and of journal, and set the new
// version here.
const EngineVersion = "v2.1.7"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	blockSize   = 32 << 10
	headerSize  = 4 + 2 + 1 + 4 + 8
	firstType   = 9 // the first of four types: whole, beginning, middle, end
	checksumAdd = 0xa282ead8
)

// Check reads the bytes of the log file with a number. It returns the offset up to
// which Pebble can read the file, and whether synced bytes follow that cannot be
// read.
func Check(b []byte, number uint32) (at int, damaged bool) {
	for at < len(b) {
		if end := min(len(b), blockEnd(at)); blockEnd(at)-at < headerSize && allZero(b[at:end]) {
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
		i := bytes.Index(b[from:], want) // every chunk header contains the number
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
		// The number that Pebble writes is lower than what it synced, because it
		// leaves out most full blocks. But each sync covers all that was written
		// before it, and syncs do not overlap: the third sync that is reported
		// behind a byte began after that byte was written.
		if synced > uint64(at) || syncs == 3 {
			return at, true
		}
		from += size
	}
	return at, false
}

// chunkAt returns the size of the chunk at an offset, and how many bytes of the
// file were synced when it was written. The size is 0 when there is no chunk.
func chunkAt(b []byte, at int, number uint32) (size int, synced uint64) {
	if at < 0 {
		return 0, 0
	}
	end := min(len(b), blockEnd(at))
	if end-at < headerSize {
		return 0, 0
	}
	h := b[at:end]
	size = headerSize + int(binary.LittleEndian.Uint16(h[4:]))
	if h[6] < firstType || h[6] > firstType+3 || binary.LittleEndian.Uint32(h[7:]) != number || size > len(h) {
		return 0, 0
	}
	sum := crc32.Checksum(h[6:size], castagnoli)
	if binary.LittleEndian.Uint32(h) != (sum>>15|sum<<17)+checksumAdd {
		return 0, 0
	}
	return size, binary.LittleEndian.Uint64(h[11:])
}

// blockEnd returns the offset after the block that contains an offset.
func blockEnd(at int) int { return at - at%blockSize + blockSize }

func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
