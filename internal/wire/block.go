package wire

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/klauspost/compress/flate"
)

// Gzip and Zstd are how a [Stream] can be compressed.
const (
	Gzip = "gzip"
	Zstd = "zstd"
)

// Block is a piece of compressed text that is shared by all readers: deflate
// data that refers to nothing before it and ends on a byte boundary, so that
// blocks can be strung together in any order into one gzip stream; or a whole
// zstd frame, of which the other fields say nothing. A compressor per reader
// would cost up to a megabyte each.
type Block struct {
	Data  []byte
	CRC   uint32 // CRC-32 (IEEE) of the text
	Size  int    // length of the text
	Shift uint32 // x^(8*Size) modulo the CRC's polynomial, which joins checksums; 0 means: compute it from Size
}

// maxStored is the size limit of one stored deflate block.
const maxStored = 1<<16 - 1

// gzipHead is a gzip header: deflate, no name, no time, unknown system.
var gzipHead = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// CompressBlock compresses src and appends the result to dst; the block's Data
// is dst with that behind it, so dst is normally empty with some capacity. It
// needs 16 KB of stack: call it where events are encoded, once, not in the
// goroutine of each reader.
func CompressBlock(dst, src []byte) Block {
	w := appender{dst}
	// appender does not fail, and that is the only error there is.
	_ = flate.StatelessDeflate(&w, src, false, nil)
	return Block{Data: w.b, CRC: crc32.ChecksumIEEE(src), Size: len(src), Shift: shiftOf(uint64(len(src)))}
}

// CompressFrame is [CompressBlock] for zstd: a frame that refers to nothing
// outside itself, and as many as one likes, in any order, make one zstd body.
func CompressFrame(dst, src []byte) Block {
	return Block{Data: zstdEncoder().EncodeAll(src, dst), Size: len(src)}
}

type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// storedBlocks wraps src without compressing it.
func storedBlocks(src []byte) []Block {
	var all []Block
	for len(src) > 0 {
		n := min(len(src), maxStored)
		data := make([]byte, 5, 5+n)
		binary.LittleEndian.PutUint16(data[1:], uint16(n))
		binary.LittleEndian.PutUint16(data[3:], ^uint16(n))
		part := src[:n]
		all = append(all, Block{
			Data: append(data, part...), CRC: crc32.ChecksumIEEE(part), Size: n, Shift: shiftOf(uint64(n)),
		})
		src = src[n:]
	}
	return all
}

// checksum follows what a gzip stream has sent.
type checksum struct {
	crc   uint32
	size  uint32 // modulo 2^32, as the format wants it
	begun bool
}

func (c *checksum) add(b Block) {
	shift := b.Shift
	if shift == 0 { // never a real value
		shift = shiftOf(uint64(b.Size))
	}
	c.crc = multiply(shift, c.crc) ^ b.CRC
	c.size += uint32(b.Size)
}

// gzipTrailer is the length of what appendTrailer appends.
const gzipTrailer = 5 + 8

// appendTrailer appends a final empty block, the checksum and the size.
func (c *checksum) appendTrailer(dst []byte) []byte {
	dst = append(dst, 1, 0, 0, 0xff, 0xff)
	dst = binary.LittleEndian.AppendUint32(dst, c.crc)
	return binary.LittleEndian.AppendUint32(dst, c.size)
}

// A CRC is a remainder of polynomials over GF(2), kept with the bits reversed:
// the highest bit is x^0. The checksum of a followed by b is
// crc(a) * x^(8*len(b)) + crc(b), so that two checksums can be joined without
// the bytes.

// multiply returns a*b modulo the polynomial.
func multiply(a, b uint32) uint32 {
	var p uint32
	for m := uint32(1) << 31; m != 0; m >>= 1 {
		if a&m != 0 {
			p ^= b
			if a&(m-1) == 0 {
				break
			}
		}
		if b&1 != 0 {
			b = b>>1 ^ crc32.IEEE
		} else {
			b >>= 1
		}
	}
	return p
}

// squares[i] is x^(2^i) modulo the polynomial.
var squares = func() (t [64]uint32) {
	t[0] = 1 << 30 // x^1
	for i := 1; i < len(t); i++ {
		t[i] = multiply(t[i-1], t[i-1])
	}
	return t
}()

// shiftOf returns x^(8*n) modulo the polynomial.
func shiftOf(n uint64) uint32 {
	p := uint32(1) << 31 // x^0
	for i := 3; n != 0; i, n = i+1, n>>1 {
		if n&1 != 0 {
			p = multiply(squares[i], p)
		}
	}
	return p
}
