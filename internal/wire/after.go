package wire

import (
	"hash/crc32"

	"github.com/klauspost/compress/flate"
)

// CompressAfter is [CompressBlock] for one stream alone: before is what the text
// of that stream ends with at this place, and src may refer to it. Small texts
// that resemble each other, which have little to compress by themselves, take a
// fraction so. The last 8 KB of before count.
func CompressAfter(dst, src, before []byte) Block {
	w := appender{dst}
	// appender does not fail, and that is the only error there is.
	_ = flate.StatelessDeflate(&w, src, false, before)
	return Block{Data: w.b, CRC: crc32.ChecksumIEEE(src), Size: len(src), Shift: shiftOf(uint64(len(src)))}
}
