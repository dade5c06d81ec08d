package wire

import (
	"context"
	"net"
	"testing"
	"time"
)

// A peer that answered pings and then went away is heard to the end, also when
// a write notices first that it has gone: what it answered is how a dialect
// without a cursor knows what has arrived.
func TestPongsCountAlsoAfterAFailedWrite(t *testing.T) {
	gone := make(chan struct{})
	pongs := make(chan string, 4)
	srv, _, results := wsServer(t, WSOptions{}, func(ctx context.Context, c *Conn) error {
		c.OnPong(func(p []byte) { pongs <- string(p) })
		<-gone
		for c.WriteText(ctx, []byte("is anybody there")) == nil { // the first may still be taken
		}
		_, err := c.Read(ctx)
		return err
	})
	conn := raw(t, srv)
	for _, p := range []string{"one", "two"} {
		if _, err := conn.Write(frame(0x8a, true, []byte(p))); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil { // a reset, as of a killed process
		t.Fatal(err)
	}
	conn.Close()
	close(gone)
	select {
	case err := <-results:
		if err != ErrPeerGone {
			t.Errorf("the connection ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the connection did not end")
	}
	if len(pongs) != 2 || <-pongs != "one" || <-pongs != "two" {
		t.Error("answers of the peer were lost")
	}
}
