// Package native is Parley's own dialect: HTTP with JSON, Server-Sent Events,
// and a WebSocket that carries many sessions. Its routes are described by the
// OpenAPI document that it serves at /parley/v1/openapi.json, which is made from
// the same table as the routes.
//
// # What goes in and out
//
// A draft {type, payload, client_id?, workstream_id?} goes in; the envelope of
// the event, byte for byte as it is stored, comes out. Streams carry frames
// named hello, event, preview, ping and bye; the id of a frame is the cursor to
// resume from.
//
// Workers, agents outside of the process, connect to agents/{name}/work; the
// frames are described in wire.go.
package native
