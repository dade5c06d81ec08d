package journal

import (
	"encoding/binary"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// logEnd describes the last event of a session.
type logEnd struct {
	seq  chat.Seq
	at   chat.At
	hash chat.Hash // of the last event's stored bytes

	bytes int64 // of all events
}

const logEndSize = 8 + 8 + 16 + 8

func (p logEnd) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(p.seq))
	b = binary.BigEndian.AppendUint64(b, uint64(p.at))
	b = append(b, p.hash[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(p.bytes))
}

func decodeLogEnd(b []byte) (p logEnd, ok bool) {
	if len(b) != logEndSize {
		return p, false
	}
	p.seq = chat.Seq(binary.BigEndian.Uint64(b))
	p.at = chat.At(binary.BigEndian.Uint64(b[8:]))
	p.hash = chat.Hash(b[16:32])
	p.bytes = int64(binary.BigEndian.Uint64(b[32:]))
	return p, p.bytes >= 0
}

func appendNumber(b []byte, n chat.Number) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(n))
}

func decodeNumber(b []byte) (chat.Number, bool) {
	if len(b) != 8 {
		return 0, false
	}
	return chat.Number(binary.BigEndian.Uint64(b)), true
}

// appendClient writes the value of a kClient key.
func appendClient(b []byte, seq chat.Seq, digest uint64) []byte {
	b = binary.BigEndian.AppendUint64(b, digest)
	return binary.AppendUvarint(b, uint64(seq))
}

func decodeClient(b []byte) (seq chat.Seq, digest uint64, ok bool) {
	if len(b) < 9 {
		return 0, 0, false
	}
	digest = binary.BigEndian.Uint64(b)
	s, n := binary.Uvarint(b[8:])
	return chat.Seq(s), digest, n > 0 && n == len(b)-8 && s > 0
}

// promptValue is the value of a kPrompt key. It has the deadline, so that the entry in
// the deadline index can be removed when the prompt ends, and the request's id,
// which is in no key.
type promptValue struct {
	ref      core.PromptRef
	deadline chat.At // 0 means none
	request  string
}

func (p promptValue) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(p.ref.Asked))
	b = binary.AppendUvarint(b, uint64(p.ref.Ended))
	b = binary.AppendVarint(b, int64(p.deadline))
	return append(b, p.request...)
}

func decodePrompt(b []byte) (p promptValue, ok bool) {
	asked, n := binary.Uvarint(b)
	if n <= 0 {
		return p, false
	}
	b = b[n:]
	ended, n := binary.Uvarint(b)
	if n <= 0 {
		return p, false
	}
	b = b[n:]
	deadline, n := binary.Varint(b)
	if n <= 0 {
		return p, false
	}
	return promptValue{core.PromptRef{Asked: chat.Seq(asked), Ended: chat.Seq(ended)}, chat.At(deadline), string(b[n:])}, true
}

// appendEnds stores boundaries as differences, which are small.
func appendEnds(b []byte, ends []chat.End) []byte {
	b = binary.AppendUvarint(b, uint64(len(ends)))
	var last chat.End
	for _, e := range ends {
		b = binary.AppendVarint(b, int64(e.Bytes-last.Bytes))
		b = binary.AppendVarint(b, int64(e.At-last.At))
		last = e
	}
	return b
}

func decodeEnds(b []byte) ([]chat.End, bool) {
	count, n := binary.Uvarint(b)
	// Each end takes at least two bytes: a larger count is damage.
	if n <= 0 || count > uint64(len(b)-n)/2 {
		return nil, false
	}
	b = b[n:]
	ends := make([]chat.End, 0, count)
	var last chat.End
	for range count {
		bytes, n := binary.Varint(b)
		if n <= 0 {
			return nil, false
		}
		b = b[n:]
		at, n := binary.Varint(b)
		if n <= 0 {
			return nil, false
		}
		b = b[n:]
		last = chat.End{Bytes: last.Bytes + int(bytes), At: last.At + chat.At(at)}
		ends = append(ends, last)
	}
	return ends, len(b) == 0
}
