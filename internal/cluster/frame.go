package cluster

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// Pos is a position in the log of a partition. The first frame has position 1.
type Pos uint64

// Digest is the hash over all frames of a partition that counted, in their order.
type Digest [sha256.Size]byte

// Frame is one entry of a partition's log.
type Frame struct {
	Cluster   string // id of the cluster
	Partition uint16
	Epoch     uint64
	Number    uint64 // from 1 within the epoch; 0 for a claim
	Digest    Digest // of the frames that counted before; of no meaning in a claim
	Claim     Claim  // if Number is 0
	Records   []Record
}

// Claim begins an epoch.
type Claim struct {
	Node     string // the owner of the epoch
	Process  uint64 // a random number of the owner's process; 0 if another node hands the partition over
	Handover bool   // the owner before it has given the partition up
}

// Record is one change of the data. The package does not look into it.
type Record struct {
	Kind byte
	Data []byte
}

const (
	frameVersion = 1

	// MaxFrame is the size of a frame that an owner fills with several records.
	MaxFrame = 256 << 10

	maxName = 255
)

// errFrame is returned for bytes that are not a frame of this version.
var errFrame = errors.New("not a frame of a partition's log")

// Append appends the encoded frame to b.
func (f *Frame) Append(b []byte) []byte {
	b = append(b, frameVersion)
	b = appendBytes(b, []byte(f.Cluster))
	b = binary.AppendUvarint(b, uint64(f.Partition))
	b = binary.AppendUvarint(b, f.Epoch)
	b = binary.AppendUvarint(b, f.Number)
	if f.Number == 0 {
		b = appendBytes(b, []byte(f.Claim.Node))
		b = binary.BigEndian.AppendUint64(b, f.Claim.Process)
		if f.Claim.Handover {
			return append(b, 1)
		}
		return append(b, 0)
	}
	b = append(b, f.Digest[:]...)
	for _, r := range f.Records {
		b = append(b, r.Kind)
		b = appendBytes(b, r.Data)
	}
	return b
}

func appendBytes(b, s []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// ParseFrame decodes a frame. The records share memory with b.
func ParseFrame(b []byte) (*Frame, error) {
	r := reader{b: b}
	if v := r.byte(); v != frameVersion && r.ok() {
		return nil, fmt.Errorf("%w: version %d is not known to this program", errFrame, v)
	}
	f := &Frame{Cluster: string(r.bytes(maxName))}
	partition := r.number()
	f.Partition = uint16(partition)
	f.Epoch = r.number()
	f.Number = r.number()
	if partition > 0xffff || f.Epoch == 0 {
		return nil, errFrame
	}
	if f.Number == 0 {
		f.Claim.Node = string(r.bytes(maxName))
		f.Claim.Process = r.uint64()
		flag := r.byte()
		f.Claim.Handover = flag == 1
		if !r.ok() || len(r.b) > 0 || flag > 1 || f.Claim.Node == "" {
			return nil, errFrame
		}
		return f, nil
	}
	copy(f.Digest[:], r.take(len(f.Digest)))
	for r.ok() && len(r.b) > 0 {
		f.Records = append(f.Records, Record{Kind: r.byte(), Data: r.bytes(len(b))})
	}
	if !r.ok() || len(f.Records) == 0 {
		return nil, errFrame
	}
	return f, nil
}

// reader reads the fields of a frame. After the first one that is not there, all are zero.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) ok() bool { return !r.failed }

func (r *reader) take(n int) []byte {
	if r.failed || n < 0 || n > len(r.b) {
		r.failed = true
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || size > 1 && r.b[size-1] == 0 { // each number has one encoding
		r.failed = true
		return 0
	}
	r.take(size)
	return n
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) bytes(limit int) []byte {
	n := r.number()
	if n > uint64(limit) {
		r.failed = true
		return nil
	}
	return r.take(int(n))
}
