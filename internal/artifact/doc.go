// Package artifact stores the files of sessions: files that agents make and people
// upload, which are too large for an event.
//
// Local is a store in a folder. Walk visits what a backup needs, Verify reads every
// byte, FinishChanges ends changes that a crash has interrupted. Files that Get returns
// are compared with their hash while they are read.
//
// # What is on disk
//
//	sessions/ab/<hash of session id>/<hash of path>            the record of one name, as JSON
//	sessions/ab/<hash of session id>/<hash of path>-<sha256>   its bytes; with .part behind it while the
//	                                                           record is not written yet or about to be removed
//	tmp/                                                       uploads in progress
//	trash/                                                     erased sessions, until the last byte is gone
//	changes/                                                   notes of changes that the log may not have yet
//	blobs/                                                     notes of bytes in another store, see Blobs
//
// Names are hashed, so no name that a client chooses ever becomes a path of the
// operating system.
//
// A copy, such as of a fork, is a hard link where the file system has them, so the
// file system counts the references and no crash can leave a wrong count.
//
// # After a crash
//
// A record has a checksum. Bytes without .part and without a record are never what
// a crash leaves: their record was lost, and Verify says so.
//
// A name appears by one rename, after its bytes and the bytes of its record are
// synced; Put returns when the folder is synced too. A name disappears by one
// unlink, a session by one rename into trash, which Open finishes. What a crash leaves
// of a put is in the session's own folder, under the hash of the name, and is removed
// with the session.
//
// A change that belongs to the log (PutOptions.Commit, Remove, CopySession) leaves a
// note until it is settled; FinishChanges ends those that a crash left, see changes.go.
//
// # Concurrency
//
// All methods may be called at the same time from any goroutine of one process;
// a folder belongs to one process. Puts and deletes within a session are done
// one after the other, but only their last step is: uploads run side by side.
// Of two puts on one path the one that finishes last stays. A reader keeps the
// bytes it opened, whatever happens to the name.
//
// Two kinds of lock order changes of the folder and are held during file operations:
// one per path, which is also held while a change is committed to the log, then one
// per session. No body is read from a caller while one is held.
package artifact
