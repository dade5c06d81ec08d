package journal

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/parley-hq/parley/chat"
)

// The first byte of a key is its kind. All integers are big-endian, so that
// byte order is the order of numbers. "number" is the session's chat.Number.
const (
	kFormat     = 'f' // → version of this layout
	kID         = 'I' // hash(id) → number
	kName       = 'N' // number → id; empty once erased
	kEvent      = 'E' // number, seq → the envelope, byte for byte
	kHead       = 'H' // only in decoded: (kEvent, number, headSeq) → the end of the log
	kRecord     = 'M' // number → chat.Session as JSON
	kState      = 'S' // number, seq → chat.State as JSON: a checkpoint
	kClient     = 'C' // number, hash(actor, client id) → seq, digest
	kPrompt     = 'R' // number, hash(request id) → prompt value
	kDeadline   = 'D' // deadline, number, hash(request id) → nothing
	kEnds       = 'B' // number, seq → piece boundaries of a finished block
	kWorking    = 'W' // number → nothing; there while the session has work to do
	kActivity   = 'A' // hash(workspace, actor), ^bucket, number → nothing
	kAlias      = 'L' // hash(workspace, actor, foreign id) → id; empty once erased
	kAliasOf    = 'l' // hash(id), hash of the alias → nothing
	kTombstone  = 'T' // hash(id) → time of the erase, number
	kErasing    = 'X' // number → hash(id), then maybe the intention as JSON: files may still hold its text
	kImporting  = 'P' // number → an import has begun and not ended: nothing, or with Apply the end of what is stored
	kFiles      = 'F' // number → bytes of the session's files, if there are any
	kFileName   = 'n' // number, hash(path) → chat.FileInfo as JSON; only on nodes of a cluster
	kStored     = 'G' // hash(workspace), hash(workspace, owner) → bytes stored; merged
	kCopy       = 'Q' // partition → what Apply was given with the last frame; only on nodes of a cluster
	kAfterEvery = 0xff
)

// ranged lists the kinds with keys (kind, number, …). Removing a session takes one
// range delete for each.
var ranged = []byte{kEvent, kRecord, kState, kClient, kPrompt, kEnds, kWorking, kFiles, kFileName}

// keyHash is a hash of texts, used in keys.
type keyHash [16]byte

func hashOf(parts ...string) keyHash {
	var scratch [512]byte
	b := scratch[:0]
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return keyHash(sum[:16])
}

func idHash(id chat.SessionID) keyHash { return hashOf(string(id)) }

func numberKey(b []byte, kind byte, n chat.Number) []byte {
	return binary.BigEndian.AppendUint64(append(b, kind), uint64(n))
}

func seqKey(b []byte, kind byte, n chat.Number, seq chat.Seq) []byte {
	return binary.BigEndian.AppendUint64(numberKey(b, kind, n), uint64(seq))
}

// headSeq places a session's head right after its events. A commit writes both
// keys, and inserting the second next to the first takes almost no time.
const headSeq chat.Seq = 1<<64 - 1

func headKey(b []byte, n chat.Number) []byte { return seqKey(b, kEvent, n, headSeq) }

func hashKey(b []byte, kind byte, t keyHash) []byte {
	return append(append(b, kind), t[:]...)
}

func numberHashKey(b []byte, kind byte, n chat.Number, t keyHash) []byte {
	return append(numberKey(b, kind, n), t[:]...)
}

func deadlineKey(b []byte, at chat.At, n chat.Number, t keyHash) []byte {
	b = binary.BigEndian.AppendUint64(append(b, kDeadline), orderedAt(at))
	b = binary.BigEndian.AppendUint64(b, uint64(n))
	return append(b, t[:]...)
}

func aliasOfKey(b []byte, id, alias keyHash) []byte {
	return append(hashKey(b, kAliasOf, id), alias[:]...)
}

// bucketOf groups positions of about one second, so that the activity index is not
// rewritten with every event.
func bucketOf(at chat.At) uint64 { return orderedAt(at) >> 20 }

func activityKey(b []byte, list keyHash, bucket uint64, n chat.Number) []byte {
	b = hashKey(b, kActivity, list)
	b = binary.BigEndian.AppendUint64(b, ^bucket)
	return binary.BigEndian.AppendUint64(b, uint64(n))
}

// orderedAt maps positions to unsigned integers in the same order. Positions of
// imported events may be negative.
func orderedAt(at chat.At) uint64 { return uint64(at) ^ 1<<63 }

func atOrdered(u uint64) chat.At { return chat.At(u ^ 1<<63) }

// decoded holds the parts of a key; the kind determines which fields are set.
type decoded struct {
	kind   byte
	number chat.Number
	seq    chat.Seq
	at     chat.At
	bucket uint64
	hash   keyHash // the first hash of the key
	second keyHash

	partition uint16
}

// decodeKey splits a key into its parts; ok is false when it is not a valid key.
func decodeKey(k []byte) (d decoded, ok bool) {
	if len(k) == 0 {
		return d, false
	}
	d.kind = k[0]
	k = k[1:]
	u64 := func() uint64 { v := binary.BigEndian.Uint64(k); k = k[8:]; return v }
	sum := func() keyHash { t := keyHash(k[:16]); k = k[16:]; return t }
	want := map[byte]int{
		kFormat: 0, kID: 16, kName: 8, kEvent: 16, kRecord: 8, kState: 16, kClient: 24, kPrompt: 24,
		kDeadline: 32, kEnds: 16, kWorking: 8, kActivity: 32, kAlias: 16, kAliasOf: 32, kTombstone: 16,
		kErasing: 8, kImporting: 8, kFiles: 8, kFileName: 24, kStored: 32, kCopy: 2,
	}
	if n, known := want[d.kind]; !known || n != len(k) {
		return d, false
	}
	switch d.kind {
	case kID, kAlias, kTombstone:
		d.hash = sum()
	case kName, kRecord, kWorking, kErasing, kImporting, kFiles:
		d.number = chat.Number(u64())
	case kEvent, kState, kEnds:
		d.number, d.seq = chat.Number(u64()), chat.Seq(u64())
		if d.kind == kEvent && d.seq == headSeq {
			d.kind, d.seq = kHead, 0
		}
	case kClient, kPrompt, kFileName:
		d.number, d.hash = chat.Number(u64()), sum()
	case kDeadline:
		d.at, d.number, d.hash = atOrdered(u64()), chat.Number(u64()), sum()
	case kActivity:
		d.hash, d.bucket, d.number = sum(), ^u64(), chat.Number(u64())
	case kCopy:
		d.partition = binary.BigEndian.Uint16(k)
	case kAliasOf, kStored:
		d.hash, d.second = sum(), sum()
	}
	return d, true
}

// span gives the bounds of all keys that begin with prefix.
func span(prefix []byte) (from, to []byte) {
	to = append([]byte(nil), prefix...)
	for i := len(to) - 1; i >= 0; i-- {
		if to[i]++; to[i] != 0 {
			return prefix, to[:i+1]
		}
	}
	return prefix, []byte{kAfterEvery, kAfterEvery}
}
