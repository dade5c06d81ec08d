package wire

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

func TestBlocksThatReferToWhatWasBefore(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var sum checksum
	out, plain, tail := bytes.Clone(gzipHead), []byte(nil), []byte(nil)
	alone, after := 0, 0
	for i := range 300 {
		text := fmt.Appendf(nil, "data: {\"t\":12,\"m\":\"word%d \",\"i\":\"b7-1\",\"ts\":%d}\n\n", rnd.IntN(1000), 1794724571841985+i*20011)
		var b Block
		switch {
		case i%50 == 49: // one that all share, between the others
			text = bytes.Repeat(text, rnd.IntN(400))
			b, tail = CompressBlock(nil, text), nil
		default:
			b = CompressAfter(nil, text, tail)
			alone, after = alone+len(CompressBlock(nil, text).Data), after+len(b.Data)
			tail = append(tail, text...)
			tail = tail[max(0, len(tail)-2048):]
		}
		sum.add(b)
		out, plain = append(out, b.Data...), append(plain, text...)
	}
	z, err := gzip.NewReader(bytes.NewReader(sum.appendTrailer(out)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(z)
	if err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("%d bytes come back as %d: %v", len(plain), len(got), err)
	}
	t.Logf("%d bytes instead of %d", after, alone)
	if after*2 > alone {
		t.Errorf("%d bytes instead of %d are not much less", after, alone)
	}
}

func BenchmarkCompressAfter(b *testing.B) {
	text := []byte(`data: {"t":12,"m":"word12 ","i":"b7-1","ts":1794724571841.985}` + "\n\n")
	tail := bytes.Repeat(text, 30)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = CompressAfter(dst[:0], text, tail).Data
	}
}
