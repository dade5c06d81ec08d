package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
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

// BindBody ends the reading of a body when the request's context ends with a binding:
// a body may take hours. The caller calls release at the end.
func BindBody(w http.ResponseWriter, r *http.Request) (release func()) {
	ctx := r.Context()
	if r.Body == nil || r.Body == http.NoBody {
		return func() {}
	}
	r.Body = &contextBody{ReadCloser: r.Body, ctx: ctx}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		if Ended(ctx) != nil {
			_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // writers in tests may have no deadlines
		}
	})
	return func() {
		if !stop() {
			<-done // w must not be used after the handler has returned
		}
	}
}

// contextBody returns the cause of the context when a body cannot be read further.
type contextBody struct {
	io.ReadCloser
	ctx context.Context
}

func (b *contextBody) Read(p []byte) (int, error) {
	if why := Ended(b.ctx); why != nil {
		return 0, why
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		if why := Ended(b.ctx); why != nil {
			err = why
		}
	}
	return n, err
}
