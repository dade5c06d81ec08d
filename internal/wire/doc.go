// Package wire carries bytes between HTTP clients and the dialects: Server-Sent
// Events, WebSocket messages, complete bodies and stored files. It implements framing
// and compression and does not interpret the content.
//
// # Types
//
// [ServeSSE] answers a request with a [Stream], [ServeWS] with a [Conn], [ServeMessages]
// with a [Conn] whose messages a [Receiver] handles. On HTTP/1.1 they take the connection
// over from net/http, let the handler return, and continue in goroutines of their own,
// which frees the buffers of net/http. [Conns] is the set of these connections: a server
// ends them with it and waits for them. [Bind] ends a connection together with the
// credential that opened it. [Route] describes a route of a dialect to package server.
// [ReadBody] and [WriteBody] handle bodies with limits and compression, [ServeStored]
// stored files. [CheckJSON] refuses JSON that decoders would change silently.
//
// # Sharing
//
// With many readers the work per reader matters. So bytes are prepared once and shared:
// [AppendSSE], [AppendTextFrame] and [CompressBlock] make bytes that any number of
// streams may send at the same time, as long as they are not changed afterwards. A gzip
// stream is a sequence of such blocks; their checksums are combined (see block.go). An
// idle connection holds no buffer and a small stack; one with a Receiver has no goroutine.
//
// # Concurrency
//
// All functions and the types [Conns], [Stream], [Conn] and [StackPool] may be used by
// several goroutines at once, with one exception: one goroutine at a time calls
// [Conn.Read]. Writes of one connection happen one after the other; each is one system
// call where the connection allows it.
package wire
