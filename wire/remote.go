package wire

import (
	"context"
	"net"
)

type remoteKey struct{}

// WithRemote returns a context that knows the address of the peer of a connection.
func WithRemote(ctx context.Context, c net.Conn) context.Context {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		host = c.RemoteAddr().String()
	}
	return context.WithValue(ctx, remoteKey{}, host)
}

// RemoteOf returns the address of the peer, without its port; "" when it is not known.
func RemoteOf(ctx context.Context) string {
	host, _ := ctx.Value(remoteKey{}).(string)
	return host
}
