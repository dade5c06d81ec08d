// Package proxy fetches pictures for people who asked to see them. A text may
// point to an image anywhere; a page that loaded it by itself would tell that
// place who reads what and when, and an address can carry data out. So the
// console shows where an image is, and only on request has the server fetch it.
//
// The server must not become a way into its own network: an address is looked
// at after its name was resolved, for the first request and for every redirect,
// at the moment of connecting, so that a name that resolves differently the
// second time gains nothing. Only pictures of a few types come through, up to a
// size, within a time; what they are is read from their bytes, not from what
// the other side says. Nothing of the person is passed on: no cookies, no
// referrer, no address.
//
// An [Images] is safe for use by any number of goroutines; at most
// [Options.Concurrent] fetches run at once, further ones are refused with
// slow_down.
package proxy
