// Package cluster holds the rules by which several nodes keep equal copies of all sessions.
//
// The sessions are divided into partitions. Each partition has a log, which orders frames and stores them on a majority of
// the nodes. Every node applies the frames of a partition in the order of the log; one node, the owner, adds frames.
//
// # Epochs
//
// An owner owns a partition for one epoch. A claim begins an epoch, and it stands in the same log as the frames of the owner,
// so all nodes agree which frames come before it and which come after. [Copy.Apply] decides for each frame whether it counts:
//
//   - a claim counts if its epoch is the next one;
//   - another frame counts if its epoch is the present one and its number follows that of the last frame that counted;
//   - repeated frames and frames of older epochs are void.
//
// No clock and no answer of the log decides whether a frame counts. When another claim follows, the owner reads it in
// the log before it acknowledges any record that does not count.
//
// # Acknowledged
//
// The owner sends one frame at a time, and the same frame again until it reads it back from the log. Then the records of the
// frame are applied, and only then are they acknowledged. When the owner reads the claim of another node instead, its frame
// is void on all nodes and its records are certainly not applied.
//
// A node that starts again with an older copy may find its own earlier claims in the log, and frames of its earlier process
// may still arrive. So a claim names the process that made it ([Claim].Process), and a process owns an epoch only if the
// claim that counted is its own.
//
// # Types
//
// [Frame], [Copy] and [Partition] are the rules; they do no I/O. [Log] is what stores the frames. [Replica] drives a Partition
// over a Log and a [Store]: it claims the partition when heartbeats of its owner are missing, and hands it over.
package cluster
