// Package natslog keeps the logs of a cluster in JetStream: cluster.Log over a stream for each partition.
//
// A stream has one subject, is stored in files by three servers, and refuses new frames when it is full. The position of a
// frame is its sequence in the stream.
//
// # Reading
//
// The leader of a stream publishes each stored message once more on another subject, after a majority has it. Tail reads that
// subject and checks the sequences. What it did not get from there, it asks the leader for: at its start, when a sequence is
// missing, when nothing came for half a second, and when an own append was acknowledged and did not come. There are no
// consumers, which would be state of the servers for each reader.
//
// # Not used
//
// Message ids, expected sequences, batches, and answers of followers. Whether a frame counts is decided by package cluster
// when it is read.
package natslog
