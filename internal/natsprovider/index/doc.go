// Package index is the provider of graph and vector: small collections that live
// in the server itself. They show the pattern; whoever has millions of vectors
// starts a provider of their own in its place.
//
//	vector.upsert {namespace, id, vector, metadata}      vector.delete {namespace, id}
//	vector.search {namespace, vector, top_k, filter}
//	graph.write {handle, record_type, data}              graph.relate {handle, from, edge, to, properties}
//	graph.resolve {handle, record_type, name, email, attributes}
//	graph.query {handle, query, vars}                    graph.discover {handle}
//
// # What is stored
//
// Each collection of a workspace is a system session (sys-vector.…, sys-graph.…),
// each change an event in it. What is searched is a projection in memory, rebuilt
// when the collection is first asked for. A change is answered when it is durable.
//
// # Concurrency
//
// All operations may run at the same time. Changes of one collection are made one
// after the other, searches wait for none but the moment of a change.
package index
