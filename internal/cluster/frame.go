package cluster

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/parley-hq/parley/internal/fields"
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

	encoded []byte // what Encoded returns; nil before
}

// Claim begins an epoch.
type Claim struct {
	Node     string // the owner of the epoch
	Process  uint64 // a random number of the owner's process
	Handover bool   // the owner before it has given the partition up, or was stopped in order while no other process could take it
}

// Record is one change of the data. The package does not look into it.
type Record struct {
	Kind byte
	Data []byte

	Decoded any // what Data encodes, if this process has made the record; else nil
}

const (
	frameVersion = 1

	// maxFrame is the size of a frame that an owner fills with several records.
	maxFrame = 256 << 10

	maxName = 255
)

// errFrame is returned for bytes that are not a frame of this version.
var errFrame = errors.New("not a frame of a partition's log")

// Encoded returns the encoded frame. Neither it nor the frame may be changed afterwards.
func (f *Frame) Encoded() []byte {
	if f.encoded == nil {
		f.encoded = f.Append(nil)
	}
	return f.encoded
}

// Append appends the encoded frame to b.
func (f *Frame) Append(b []byte) []byte {
	b = append(b, frameVersion)
	b = fields.AppendBytes(b, f.Cluster)
	b = fields.AppendNumber(b, uint64(f.Partition))
	b = fields.AppendNumber(b, f.Epoch)
	b = fields.AppendNumber(b, f.Number)
	if f.Number == 0 {
		return f.Claim.append(b)
	}
	b = append(b, f.Digest[:]...)
	size := 0
	for _, r := range f.Records {
		size += 1 + binary.MaxVarintLen64 + len(r.Data)
	}
	b = slices.Grow(b, size)
	for _, r := range f.Records {
		b = append(b, r.Kind)
		b = fields.AppendBytes(b, r.Data)
	}
	return b
}

func (c *Claim) append(b []byte) []byte {
	b = fields.AppendBytes(b, c.Node)
	b = binary.BigEndian.AppendUint64(b, c.Process)
	if c.Handover {
		return append(b, 1)
	}
	return append(b, 0)
}

func readClaim(r *fields.Reader) Claim {
	return Claim{Node: string(r.Bytes(maxName)), Process: r.Uint64(), Handover: r.Number(1) == 1}
}

// ParseFrame decodes a frame. The frame shares memory with b.
func ParseFrame(b []byte) (*Frame, error) {
	r := fields.NewReader(b)
	if v := r.Byte(); v != frameVersion && r.OK() {
		return nil, fmt.Errorf("%w: version %d is not known to this program", errFrame, v)
	}
	f := &Frame{Cluster: string(r.Bytes(maxName)), encoded: b}
	f.Partition = uint16(r.Number(math.MaxUint16))
	f.Epoch = r.Number(math.MaxUint64)
	f.Number = r.Number(math.MaxUint64)
	if f.Epoch == 0 {
		return nil, errFrame
	}
	if f.Number == 0 {
		f.Claim = readClaim(r)
		if !r.Done() || f.Claim.Node == "" {
			return nil, errFrame
		}
		return f, nil
	}
	copy(f.Digest[:], r.Take(len(f.Digest)))
	for r.Left() > 0 && r.OK() {
		f.Records = append(f.Records, Record{Kind: r.Byte(), Data: r.Bytes(len(b))})
	}
	if !r.OK() || len(f.Records) == 0 {
		return nil, errFrame
	}
	return f, nil
}

// PartitionOf returns the partition of a key, such as the id of a session.
func PartitionOf(key string, partitions int) int {
	sum := sha256.Sum256([]byte(key))
	return int(sum[0]) % partitions
}
