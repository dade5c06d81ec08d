package wire

import (
	"bytes"
	"compress/gzip"
	"hash/crc32"
	"io"
	"testing"

	"pgregory.net/rapid"
)

func TestAnyBlocksMakeOneGzip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 5000)).Draw(t, "texts")
		var sum checksum
		out, want := append([]byte(nil), gzipHead...), []byte(nil)
		for i, text := range texts {
			blocks := []Block{CompressBlock(nil, text)}
			if i%3 == 2 {
				blocks = storedBlocks(text)
			}
			for _, b := range blocks {
				if i%2 == 0 {
					b.Shift = 0 // as if rebuilt from its other fields
				}
				out = append(out, b.Data...)
				sum.add(b)
			}
			want = append(want, text...)
		}
		if sum.crc != crc32.ChecksumIEEE(want) {
			t.Fatalf("joined checksum %08x, want %08x", sum.crc, crc32.ChecksumIEEE(want))
		}
		z, err := gzip.NewReader(bytes.NewReader(sum.appendTrailer(out)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(z)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %d bytes, want %d: %v", len(got), len(want), err)
		}
	})
}

func TestCompressBlockAppends(t *testing.T) {
	b := CompressBlock([]byte("before"), bytes.Repeat([]byte("parley "), 1000))
	if !bytes.HasPrefix(b.Data, []byte("before")) || b.Size != 7000 || len(b.Data) > 300 {
		t.Errorf("%d bytes for %d", len(b.Data), b.Size)
	}
}

func BenchmarkCompressBlock(b *testing.B) {
	src := bytes.Repeat(AppendSSE(nil, "event", "42", []byte(`{"session_id":"s-01","sequence":42,"type":"agent.text","payload":{"block":"b7","text":"Four."}}`)), 32)
	dst := make([]byte, 0, len(src))
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		CompressBlock(dst, src)
	}
}
