// Package index is the provider of the domains graph and vector: small collections that the server itself stores and
// searches in memory. For millions of vectors, start another provider in its place.
//
//	vector.upsert {namespace, id, vector, metadata}      vector.delete {namespace, id}
//	vector.search {namespace, vector, top_k, filter}
//	graph.write {handle, record_type, data}              graph.relate {handle, from, edge, to, properties}
//	graph.resolve {handle, record_type, name, email, attributes}
//	graph.query {handle, query, vars}                    graph.discover {handle}
//
// Each collection of a workspace is a system session (sys-vector.…, sys-graph.…), and each change is an event in it; see
// package record. A change is answered when it is durable. All operations may run at the same time: searches of a
// collection run side by side, its changes run one after the other.
package index
