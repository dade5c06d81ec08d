package grant

import (
	"fmt"
	"testing"
)

// Anybody may ask for a link. What does not exist leaves nothing in memory.
func TestLinksOfStrangersLeaveNothing(t *testing.T) {
	w := newWorld(t)
	for i := range 50 {
		if code, _ := w.call("", "GET", fmt.Sprintf("/api/shares/workspace-%d/link", i), ""); code != 404 {
			t.Fatalf("a link that leads nowhere: %d", code)
		}
	}
	if n := w.service.shares.Len(); n != 0 {
		t.Errorf("%d records are kept for workspaces that do not exist", n)
	}
}

// The rights of an administrator end with its workspace.
func TestAdministratorsOfAnotherWorkspace(t *testing.T) {
	w := newWorld(t)
	if code, v := w.call("chief", "GET", grantsPath, ""); code != 404 {
		t.Errorf("it lists grants: %d %v", code, v)
	}
	if code, v := w.call("chief", "POST", grantsPath, `{"agent_id":"helper","grant_type":"tool_scope","details":{"scopes":["deploy"]},"scope":"persistent"}`); code != 404 {
		t.Errorf("it grants: %d %v", code, v)
	}
}
