// Package grant keeps what people allow agents, and what agents share with people,
// as x1 has it: over HTTP, per workspace.
//
//	POST   /api/workspaces/{slug}/grants                     create; only people may
//	GET    /api/workspaces/{slug}/grants?user&agent&type&session&all
//	DELETE /api/workspaces/{slug}/grants/{grant}             revoke
//	POST   /api/workspaces/{slug}/grants/check               use a grant for one call; once is consumed here
//	POST   /api/workspaces/{slug}/sessions/{id}/shares       create, or update in place by share_id
//	GET    /api/workspaces/{slug}/sessions/{id}/shares       list
//	GET    …/shares/{share}   PUT …/shares/{share}   DELETE …/shares/{share}
//	GET    /api/shares/{slug}/{link}/{path...}               read by link
//
// A grant that names a request_id decides that permission request: the answer is
// a fact of the session by the person who created the grant, the first one wins,
// and the agent is woken by it. A permission that was answered elsewhere, by
// whatever dialect, becomes a grant just the same.
//
// A grant holds in the sessions in which its giver may answer, an administrator's in
// all of the workspace. It is seen by its giver, by whom it is for, and by those who
// may see its session.
//
// # What is stored
//
// Grants are events of the session sys-grants of their workspace (grant.created,
// grant.revoked, grant.used), shares of sys-shares (share.put, share.revoked). What
// is kept in memory is a projection of them that is rebuilt when a workspace is
// first asked for. A grant of scope once is used at most once because its
// grant.used has an idempotency key of which there can be only one.
//
// # Concurrency
//
// All methods may be called at the same time. A book has a lock; it is held while
// an event is appended to it, so that the projection has the log's order.
package grant
