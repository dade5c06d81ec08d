// Package core has the types that the parts of the server exchange and that clients and agents never see: commits and
// erasures (session, journal, cluster), the stream of a session (session, hub, dialects), files (session, artifact) and
// workers (agentpool, native). The parts import core instead of each other.
//
// It depends on chat alone and has no goroutines and no locks.
package core
