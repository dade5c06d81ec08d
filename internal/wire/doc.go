// Package wire carries bytes between HTTP clients and the dialects: Server-Sent
// Events, WebSocket messages, whole bodies. It knows framing and nothing of what
// the frames mean.
//
// The expensive thing about many readers is doing work once per reader. So
// whatever can be prepared is prepared once and shared: [AppendSSE],
// [AppendTextFrame] and [CompressBlock] make bytes that any number of streams
// may send at the same time, as long as nobody changes them afterwards.
//
// On HTTP/1.1 both [ServeSSE] and [ServeWS] take the connection over from
// net/http, let the handler return, and go on in goroutines of their own, which
// frees net/http's buffers. [Conns] knows all of these connections and is how a
// server tells them to end and waits for them.
//
// Concurrency: all functions and the types [Conns], [Stream] and [Conn] may be
// used by several goroutines at once, with one exception: one goroutine at a
// time calls [Conn.Read]. Writes of one connection happen one after the other;
// each is one system call where the connection allows it.
package wire
