// Package proxy fetches images for users of the console. A text may contain the address
// of an image on any server; a page that loads it reveals the reader and the time to that server, and the address
// itself can contain private data. So the console shows the address of an image, and the server fetches it only on request.
//
// The proxy must not give access to the server's own network: an address is checked
// after its name was resolved, for the first request and for every redirect, when the
// connection is made (see auth.SafeTransport). Only images of a few types are returned,
// up to a size, within a time; the type is read from the bytes, not from the response
// header. Nothing of the user is sent: no cookies, no referrer, no address.
//
// An [Images] is safe for use by any number of goroutines; at most
// [Options.Concurrent] fetches run at once, further ones are refused with
// slow_down.
package proxy
