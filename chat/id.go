package chat

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// SessionID names a session: 1 to 128 of A-Z a-z 0-9 . _ -
type SessionID string

// Validate reports why id cannot be a session id.
func (id SessionID) Validate() error {
	if !wordOf(string(id), 128, "._-") {
		return Errorf(Invalid, "a session id has 1 to 128 of A-Z a-z 0-9 . _ -")
	}
	if id == "." || id == ".." {
		return Errorf(Invalid, "%q cannot be a session id", string(id))
	}
	return nil
}

// System reports whether the session is a system session: it has data of the server
// itself, such as grants and the audit log. Only the server writes to it.
func (id SessionID) System() bool { return strings.HasPrefix(string(id), "sys-") }

// Seq is an event's number in its session; 1 is the first, there are no gaps.
type Seq uint64

// MaxSeq is the largest number an event can have; EventID keeps it in 38 bits.
const MaxSeq Seq = 1<<38 - 1

// BlockID names a block of text that is being written: 1 to 64 of A-Z a-z 0-9 _ -
type BlockID string

// Validate reports why b cannot be a block id.
func (b BlockID) Validate() error {
	if !wordOf(string(b), 64, "_-") {
		return Errorf(Invalid, "a block id has 1 to 64 of A-Z a-z 0-9 _ -")
	}
	return nil
}

func wordOf(s string, most int, extra string) bool {
	if len(s) == 0 || len(s) > most {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(extra, c) >= 0 {
			continue
		}
		return false
	}
	return true
}

// Number is a session's short name inside the store: 52 bits.
type Number uint64

// ID is a global 128-bit name of an event: it holds the session's number, the
// sequence and a check, in the shape of a version 4 UUID. So it can be resolved
// without an index. A turn's id is the id of its turn.started event, a prompt's
// default id that of its request.
//
// The lowest 7 bits are zero and are ignored when resolving: dialects that need
// several names under one event (Letta's otid) use them.
type ID [16]byte

// MakeID builds the id of the event seq in the session with that number.
func MakeID(n Number, seq Seq) ID {
	var id ID
	binary.BigEndian.PutUint64(id[:8], uint64(n)>>4<<16)
	id[6] = 0x40 | byte(n&0xf)
	id[7] = byte(seq >> 30)
	id[8] = 0x80 | byte(seq>>24)&0x3f
	id[9], id[10], id[11] = byte(seq>>16), byte(seq>>8), byte(seq)
	check := idCheck(n, seq)
	binary.BigEndian.PutUint32(id[12:], check)
	return id
}

func idCheck(n Number, seq Seq) uint32 {
	// splitmix64: spreads neighbours apart, so that a typing error does not
	// name another event.
	x := uint64(n)*0x9e3779b97f4a7c15 ^ uint64(seq)
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return uint32(x) &^ 0x7f
}

// Parts returns the session number and sequence inside id; ok is false when id
// was not made by MakeID.
func (id ID) Parts() (n Number, seq Seq, ok bool) {
	if id[6]>>4 != 4 || id[8]>>6 != 2 {
		return 0, 0, false
	}
	n = Number(binary.BigEndian.Uint64(id[:8])>>16<<4 | uint64(id[6]&0xf))
	seq = Seq(id[7])<<30 | Seq(id[8]&0x3f)<<24 | Seq(id[9])<<16 | Seq(id[10])<<8 | Seq(id[11])
	return n, seq, binary.BigEndian.Uint32(id[12:])&^0x7f == idCheck(n, seq)
}

// UUID is id in the 8-4-4-4-12 form.
func (id ID) UUID() string {
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Prefixes of ids on the wire.
const (
	EventPrefix  = "e-"
	TurnPrefix   = "t-"
	PromptPrefix = "p-"
	LaunchPrefix = "l-" // of a workstream; its event is the launch
)

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// Text is the prefix followed by 26 characters.
func (id ID) Text(prefix string) string {
	b := make([]byte, 0, len(prefix)+26)
	return string(id.append(append(b, prefix...)))
}

func (id ID) append(b []byte) []byte {
	hi, lo := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	for shift := 125; shift >= 0; shift -= 5 {
		var v uint64
		switch {
		case shift >= 64:
			v = hi >> (shift - 64)
		case shift > 59:
			v = hi<<(64-shift) | lo>>shift
		default:
			v = lo >> shift
		}
		b = append(b, crockford[v&31])
	}
	return b
}

// ParseID reads a text of 26 characters behind the prefix, or a UUID behind it.
func ParseID(prefix, s string) (ID, bool) {
	s, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return ID{}, false
	}
	var id ID
	if len(s) == 36 {
		if s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
			return ID{}, false
		}
		b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
		if err != nil || len(b) != 16 {
			return ID{}, false
		}
		return ID(b), true
	}
	if len(s) != 26 || s[0] > '7' {
		return ID{}, false
	}
	var hi, lo uint64
	for i := range 26 {
		v := strings.IndexByte(crockford, s[i])
		if v < 0 {
			return ID{}, false
		}
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(v)
	}
	binary.BigEndian.PutUint64(id[:8], hi)
	binary.BigEndian.PutUint64(id[8:], lo)
	return id, true
}

// EventID and TurnID are ids as envelopes have them.
type (
	EventID string
	TurnID  string
)
