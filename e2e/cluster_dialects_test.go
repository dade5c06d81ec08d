// The scenarios across dialects, at a node of a cluster that does not own the session.

package e2e

import (
	"testing"

	"github.com/parley-hq/parley/internal/freeport"
)

func TestEveryDialectWorksAtANodeThatDoesNotOwnTheSession(t *testing.T) {
	t.Parallel()
	for name, scenario := range map[string]func(*testing.T, *sharedSession){
		"send": sendInEveryDialect, "read": readInEveryDialect, "stop": stopInEveryDialect,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startNodesWith(t, "", []string{freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)})
			c.balanced()
			const id = "shared"
			i := (c.owner(0, id) + 1) % 3
			s := &sharedSession{process: c.all[i], id: id, bus: c.buses[i]}
			s.post("/parley/v1/sessions", `{"id":"`+id+`"}`)
			s.nc = connectNATS(t, s.bus)
			scenario(t, s)
			if owner := c.owner(i, id); owner == i {
				t.Errorf("node %d has become the owner of the session", i)
			}
		})
	}
}
