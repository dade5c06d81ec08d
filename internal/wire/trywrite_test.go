package wire

import (
	"bytes"
	"context"
	"testing"
)

// What TryWrite takes arrives whole and in order with other writes, also when the peer does not read for a while.
func TestTryWriteNeverWaitsAndLosesNothing(t *testing.T) {
	const most, size = 4000, 16 << 10
	sent := make(chan int, 1)
	srv, _, _ := wsServer(t, WSOptions{}, func(ctx context.Context, c *Conn) error {
		payload := make([]byte, size)
		n := 0
		for ; n < most; n++ {
			for i := range payload {
				payload[i] = byte('a' + n%26)
			}
			if !c.TryWrite(ctx, AppendTextFrame(nil, payload)) {
				break
			}
		}
		sent <- n
		if err := c.WriteText(ctx, []byte("end")); err != nil {
			return err
		}
		_, err := c.Read(ctx)
		return err
	})
	c := dial(t, srv)
	n := <-sent
	if n == 0 || n == most {
		t.Fatalf("%d frames were taken while the peer did not read", n)
	}
	for i := range n {
		_, msg, err := c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(msg) != size || !bytes.Equal(msg, bytes.Repeat([]byte{byte('a' + i%26)}, size)) {
			t.Fatalf("frame %d is not as it was sent", i)
		}
	}
	if _, msg, err := c.Read(t.Context()); err != nil || string(msg) != "end" {
		t.Fatalf("got %q, %v", msg, err)
	}
}
