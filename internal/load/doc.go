// Package load puts load on a running server and measures how it bears it. It
// is made to cost little itself, because it often shares the machine with the
// server: requests are prepared bytes on raw connections, and readers only look
// for stamps in what they get.
//
// # Stamps
//
// A message carries the time at which it was sent as a mark and sixteen digits,
// see [AppendStamp]. A reader counts marks and takes the time from them, so that
// it needs to know neither the framing nor the format.
//
// # Concurrency
//
// A [Crowd] and a [Hist] are each used by one goroutine at a time except where a
// method says otherwise; [HTTP] and [WS] connections belong to one goroutine.
// Functions that run a load return when all that they started has ended.
package load
