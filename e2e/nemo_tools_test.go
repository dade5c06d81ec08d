// Tests of the list of MCP tools in the NeMo dialect.

package e2e

import (
	"fmt"
	"testing"

	"github.com/parley-hq/parley/internal/modeltest"
)

// TestNeMoListsTools: the list for the MCP panel of the NeMo UI has the MCP servers of
// all agents, also one that does not answer.
func TestNeMoListsTools(t *testing.T) {
	t.Parallel()
	kit := (&toolServer{}).serve(t)
	_, endpoint := startModel(t, func(modeltest.Request) modeltest.Reply { return modeltest.Reply{Text: "hi"} })
	p := serve(t, t.TempDir(), "--config", writeConfig(t, fmt.Sprintf(`agents:
  - name: helper
    kind: model
    endpoint: %s
    model: m
    mcp: [{name: kit, url: %q}, {name: down, url: "http://127.0.0.1:1/mcp"}]
`, endpoint, kit)))
	want := `{"mcp_clients":[{"function_group":"helper/down","server":"down","transport":"streamable-http","session_healthy":false,"protected":false,` +
		`"tools":[],"total_tools":0,"available_tools":0},` +
		`{"function_group":"helper/kit","server":"kit","transport":"streamable-http","session_healthy":true,"protected":false,` +
		`"tools":[{"name":"often","description":"Counts.","server":"kit","available":true},{"name":"once","description":"Counts.","server":"kit","available":true}],` +
		`"total_tools":2,"available_tools":2}]}`
	if got := p.get("/mcp/client/tool/list"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
