// Package audit keeps the audit log: sign-ins and refused ones, credentials that were
// issued, grants, changes of members, exports, imports, erasures, backups and reloads of
// the configuration.
//
// Entries are events of the system sessions sys-audit-YYYY-MM, one per month (UTC). They
// are in a workspace of their own, so that only administrators of all workspaces can
// read these sessions directly; [Log.List] shows an administrator of one workspace the
// entries of that workspace. Whole months are erased when their last entry is older than
// the retention.
//
// [Log.Report] does not block: entries go through a bounded queue and are stored by
// [Log.Run], many in one commit. Entries that find the queue full are counted, and an
// entry entries_dropped says how many. A killed process loses the entries in
// the queue and the counts of repeated entries. Equal entries within a minute are counted, and so are refused sign-ins
// of one address, for a bounded number of addresses, so that they cannot fill the disk.
package audit
