// Package grant stores what people allow agents (grants) and what agents show to people outside of a conversation
// (shares), and serves both over HTTP, per workspace, as x1 has it:
//
//	POST   /api/workspaces/{slug}/grants                     create; only people may
//	GET    /api/workspaces/{slug}/grants?user&agent&type&session&all
//	DELETE /api/workspaces/{slug}/grants/{grant}             revoke
//	POST   /api/workspaces/{slug}/grants/check               use a grant for one call; this consumes a grant of scope once
//	POST   /api/workspaces/{slug}/sessions/{id}/shares       create, or update in place by share_id
//	GET    /api/workspaces/{slug}/sessions/{id}/shares       list
//	GET    …/shares/{share}   PUT …/shares/{share}   DELETE …/shares/{share}
//	GET    /api/shares/{slug}/{link}/{path...}               read by link
//
// A grant with a request_id answers that permission request: the answer is an event of the session by the person who
// created the grant. The first answer counts and wakes the agent. A permission that was answered in any other way, by
// any dialect, becomes a grant too.
//
// A grant holds in the sessions in which the person who gave it may answer; a grant of an administrator holds in the
// whole workspace. It is visible to the person who gave it, to the person whose agents it is for, and to all who may see
// its session.
//
// # What is stored
//
// Grants are events of the system session sys-grants of their workspace (grant.created, grant.revoked, grant.used), shares
// are events of sys-shares (share.put, share.revoked); see package record. A grant of scope once is used at most once,
// because its grant.used has an idempotency key.
//
// A grant or share that follows from an event of a session is made when the event is committed. When the process ends
// before that, it is made when the session's grants or shares are next asked for.
package grant
