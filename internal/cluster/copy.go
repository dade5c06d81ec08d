package cluster

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"

	"github.com/parley-hq/parley/internal/fields"
)

// Copy says what a node has applied of a partition. It is stored together with the data that it describes.
type Copy struct {
	Pos    Pos    // the last position of the log that was looked at
	Epoch  uint64 // of the last claim that counted; 0 before the first one
	Claim  Claim
	Number uint64 // of the last frame of the epoch that counted
	Digest Digest // of all frames that counted
}

// Verdict says what a frame means for a copy.
type Verdict int

const (
	// Void frames change nothing: repeated frames, and frames and claims of epochs that are over.
	Void Verdict = iota
	// Counts means that the records of the frame, or the claim, are applied.
	Counts
	// Damaged means that this copy or the log lost something. The copy must not be used any more for this partition; it is
	// replaced by the copy of another node.
	Damaged
)

func (v Verdict) String() string { return [...]string{"void", "counts", "damaged"}[v] }

// Apply returns the copy after the frame at pos, and what the frame means. It depends on nothing but its arguments, so it
// gives the same on every node. A copy that is damaged is returned unchanged.
func (c Copy) Apply(pos Pos, f *Frame) (Copy, Verdict) {
	if pos != c.Pos+1 {
		return c, Damaged // a gap in what was read from the log
	}
	next := c
	next.Pos = pos
	switch {
	case f.Number == 0 && f.Epoch == c.Epoch+1:
		next.Epoch, next.Claim, next.Number = f.Epoch, f.Claim, 0
	case f.Number == 0 && f.Epoch <= c.Epoch, f.Epoch < c.Epoch:
		return next, Void
	case f.Epoch > c.Epoch: // its claim is missing
		return c, Damaged
	case f.Number <= c.Number:
		return next, Void
	case f.Number > c.Number+1 || f.Digest != c.Digest:
		return c, Damaged
	default:
		next.Number = f.Number
	}
	next.Digest = f.digest(c.Digest)
	return next, Counts
}

// digest is the digest after the frame.
func (f *Frame) digest(before Digest) Digest {
	h := sha256.New()
	h.Write(before[:])
	h.Write(f.Encoded())
	return Digest(h.Sum(nil))
}

const copyVersion = 1

// Append appends the encoded copy to b, as it is stored.
func (c Copy) Append(b []byte) []byte {
	b = append(b, copyVersion)
	b = fields.AppendNumber(b, uint64(c.Pos))
	b = fields.AppendNumber(b, c.Epoch)
	b = c.Claim.append(b)
	b = fields.AppendNumber(b, c.Number)
	return append(b, c.Digest[:]...)
}

// ParseCopy decodes a copy.
func ParseCopy(b []byte) (c Copy, err error) {
	r := fields.NewReader(b)
	version := r.Byte()
	c.Pos = Pos(r.Number(math.MaxUint64))
	c.Epoch = r.Number(math.MaxUint64)
	c.Claim = readClaim(r)
	c.Number = r.Number(math.MaxUint64)
	copy(c.Digest[:], r.Take(len(c.Digest)))
	if version != copyVersion || !r.Done() {
		return Copy{}, errors.New("not a copy of a partition, or one of another version")
	}
	return c, nil
}

func (c Copy) String() string {
	return fmt.Sprintf("position %d, epoch %d of %s, frame %d", c.Pos, c.Epoch, c.Claim.Node, c.Number)
}
