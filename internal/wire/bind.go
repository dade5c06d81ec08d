package wire

import (
	"context"
	"errors"
)

// Binding returns a context that ends with ctx, or when something ends that a
// connection must not outlive, such as the credential that it was opened with. The
// function releases the resources of the binding.
type Binding func(ctx context.Context) (context.Context, context.CancelFunc)

type bindKey struct{}

// Bind returns a context for a request whose streams and connections are to end
// with a binding: they do not end with the request itself. The cause of the
// binding's context becomes the cause of theirs. A cause with the method
//
//	CloseFrame() (code int, reason string)
//
// determines how a WebSocket is closed, unless its function has closed it.
func Bind(ctx context.Context, b Binding) context.Context {
	return context.WithValue(ctx, bindKey{}, b)
}

// Ended returns the cause of a context that ended with a binding whose cause has the
// method CloseFrame, and nil otherwise.
func Ended(ctx context.Context) error {
	if f, ok := errors.AsType[closeFramer](context.Cause(ctx)); ok {
		return f
	}
	return nil
}

// Reason returns why a request failed with err: that its context has ended with
// its binding, when that is so, and err otherwise.
func Reason(ctx context.Context, err error) error {
	if ended := Ended(ctx); ended != nil {
		return ended
	}
	return err
}

// closeFramer is a cause that determines how a WebSocket is closed.
type closeFramer interface {
	error
	CloseFrame() (code int, reason string)
}
