// Package load puts load on a running server and measures rates and latencies. It uses little processor time, because it
// often runs on the same machine as the server: requests are prepared bytes on raw connections, and readers only look for
// stamps in what they receive.
//
// # Stamps
//
// A message has the time at which it was sent as a mark and sixteen digits, see [AppendStamp]. A reader counts marks and
// reads the times; it does not parse the protocol.
//
// # Concurrency
//
// A [Readers] and a [Histogram] are used by one goroutine at a time unless a method says otherwise; [HTTP] and [WS]
// connections belong to one goroutine. Functions that run a load return when all their goroutines have ended.
package load
