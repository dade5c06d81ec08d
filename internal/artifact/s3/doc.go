// Package s3 stores the bytes of artifacts in a bucket of an S3-compatible service, for the nodes of a cluster. The paths of
// the files are in the log of the cluster.
//
// # Objects
//
// The key of an object is
//
//	PREFIX/<cluster id>/<hash of session id>/<sha256 of the bytes>-<time of the upload>
//
// No part of it is chosen by a client. Every upload and every copy makes an object of its own, so an object has one name in the
// log during its life. A node that removes the bytes of a replaced file cannot remove those of a running upload, also when
// both have the same content.
//
// # Requests
//
// A body is received on local disk first, because the request has its hash: the service refuses bytes that do not have it. An
// attempt that makes no progress ends after Options.Stall; a request has at most Options.Tries attempts. Redirects are not
// followed. Bytes that are read are compared with the hash that the log has.
//
// # Erasing
//
// DeleteSession lists the objects of a session, so it also removes those of uploads whose node was killed. It first ends the
// uploads of this process: an upload that has not sent its body fails, and it waits for the others.
package s3
