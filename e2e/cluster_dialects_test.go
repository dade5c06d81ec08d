// The scenarios across dialects, at a node of a cluster that does not own the session.

package e2e

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/freeport"
)

// A node that is silent for two seconds on a busy machine loses its sessions, and the clients of a scenario may notice that. So each scenario runs in
// a process of its own, and again in a new cluster when it failed and the session got another owner.
func TestEveryDialectWorksAtANodeThatDoesNotOwnTheSession(t *testing.T) {
	t.Parallel()
	for name, scenario := range map[string]func(*testing.T, *sharedSession){
		"send": sendInEveryDialect, "read": readInEveryDialect, "stop": stopInEveryDialect,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if os.Getenv(asScenario) != "" {
				runAtAnotherNode(t, scenario)
				return
			}
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			for tries := 1; ; tries++ {
				cmd := exec.CommandContext(t.Context(), exe, "-test.run", "^TestEveryDialectWorksAtANodeThatDoesNotOwnTheSession$/^"+name+"$")
				cmd.Env = append(os.Environ(), asScenario+"="+binary)
				out, err := cmd.CombinedOutput()
				if err == nil {
					return
				}
				if tries == 3 || !strings.Contains(string(out), otherOwner) {
					t.Fatalf("%v\n%s", err, out)
				}
				t.Logf("a node was too slow; it runs again in a new cluster:\n%s", tail(string(out)))
			}
		})
	}
}

// asScenario is the environment variable of such a process; it names the program under test.
const asScenario = "PARLEY_E2E_SCENARIO"

// otherOwner is what a failed scenario prints when the owner of its session has changed.
const otherOwner = "the session got another owner"

func runAtAnotherNode(t *testing.T, scenario func(*testing.T, *sharedSession)) {
	c := startNodesWith(t, "", []string{freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)})
	c.balanced()
	const id = "shared"
	i := (c.owner(0, id) + 1) % 3
	ownership := func() client.ClusterPartition {
		st, sum := c.status(i), sha256.Sum256([]byte(id))
		return st.Partitions[int(sum[0])%len(st.Partitions)]
	}
	before := ownership()
	defer func() {
		if t.Failed() {
			if now := ownership(); now.Owner != before.Owner || now.Epoch != before.Epoch {
				t.Log(otherOwner)
			}
		}
	}()
	s := &sharedSession{process: c.all[i], id: id, bus: c.buses[i]}
	s.post("/parley/v1/sessions", `{"id":"`+id+`"}`)
	s.nc = connectNATS(t, s.bus)
	scenario(t, s)
	if owner := c.owner(i, id); owner == i {
		t.Errorf("node %d has become the owner of the session", i)
	}
}
