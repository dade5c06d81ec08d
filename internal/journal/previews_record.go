package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/parley-hq/parley/chat"
)

// A record of the preview file is: crc32c over the rest (4 bytes), length of
// the body (4 bytes), body. Integers before the body are big-endian, those in the
// body varints. A text is preceded by its length.

const (
	pieceHeader = 8
	// maxPiece bounds what is allocated for a damaged length.
	maxPiece = 2*chat.MaxBlock + 4096
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// piece is a preview with its session.
type piece struct {
	session chat.SessionID
	after   chat.Seq // the session's last event when it was written
	chat.Preview
}

// isHeader reports whether the record is the first of a preview file. It belongs
// to no session; after is the generation of the file.
func (p *piece) isHeader() bool { return p.session == "" }

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendPiece(b []byte, id chat.SessionID, after chat.Seq, p *chat.Preview) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	b = appendText(b, string(id))
	b = binary.AppendUvarint(b, uint64(after))
	b = appendText(b, string(p.Block))
	b = appendText(b, string(p.Kind))
	b = appendText(b, p.Workstream)
	b = appendText(b, string(p.Turn))
	b = binary.AppendVarint(b, int64(p.Attempt))
	b = binary.AppendVarint(b, int64(p.At))
	b = binary.AppendVarint(b, int64(p.Offset))
	b = append(b, p.Text...)
	body := b[start+pieceHeader:]
	binary.BigEndian.PutUint32(b[start+4:], uint32(len(body)))
	binary.BigEndian.PutUint32(b[start:], crc32.Checksum(b[start+4:], castagnoli))
	return b
}

var errPiece = errors.New("not a preview record")

// decodePiece reads the body of a record.
func decodePiece(b []byte) (p piece, err error) {
	text := func() string {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			err, b = errPiece, nil
			return ""
		}
		s := string(b[used : used+int(n)])
		b = b[used+int(n):]
		return s
	}
	number := func() int64 {
		n, used := binary.Varint(b)
		if used <= 0 {
			err, b = errPiece, nil
			return 0
		}
		b = b[used:]
		return n
	}
	p.session = chat.SessionID(text())
	after, used := binary.Uvarint(b)
	if used <= 0 {
		return p, errPiece
	}
	b = b[used:]
	p.after = chat.Seq(after)
	p.Block = chat.BlockID(text())
	p.Kind = chat.BlockKind(text())
	p.Workstream = text()
	p.Turn = chat.TurnID(text())
	p.Attempt = int(number())
	p.At = chat.At(number())
	offset := number()
	if offset < 0 || offset > 1<<30 {
		err = errPiece
	}
	if err != nil {
		return p, err
	}
	p.Offset = int(offset)
	p.Text = string(b)
	p.End = p.Offset + len(p.Text)
	return p, nil
}

// pieceReader reads records up to the first incomplete or unreadable one.
type pieceReader struct {
	r    *bufio.Reader
	buf  []byte
	good int64 // bytes of whole records so far
}

func newPieceReader(r io.Reader) *pieceReader {
	return &pieceReader{r: bufio.NewReaderSize(r, 64<<10)}
}

// next returns the next record and its raw bytes, which are valid until the
// next call. After the last readable record it returns io.EOF; torn reports
// whether more bytes follow.
func (r *pieceReader) next() (p piece, raw []byte, torn bool, err error) {
	if cap(r.buf) < pieceHeader {
		r.buf = make([]byte, 4<<10)
	}
	header := r.buf[:pieceHeader]
	if n, err := io.ReadFull(r.r, header); err != nil {
		return p, nil, n > 0, readEnd(err)
	}
	size := int(binary.BigEndian.Uint32(header[4:]))
	if size > maxPiece {
		return p, nil, true, io.EOF
	}
	if cap(r.buf) < pieceHeader+size {
		grown := make([]byte, pieceHeader+size)
		copy(grown, header)
		r.buf = grown
	}
	raw = r.buf[:pieceHeader+size]
	if _, err := io.ReadFull(r.r, raw[pieceHeader:]); err != nil {
		return p, nil, true, readEnd(err)
	}
	if binary.BigEndian.Uint32(raw) != crc32.Checksum(raw[4:], castagnoli) {
		return p, nil, true, io.EOF
	}
	if p, err = decodePiece(raw[pieceHeader:]); err != nil {
		return p, nil, true, io.EOF
	}
	r.good += int64(len(raw))
	return p, raw, false, nil
}

// readEnd returns io.EOF for a file that ends inside a record.
func readEnd(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}
