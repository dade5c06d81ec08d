package e2e

import (
	"fmt"
	"testing"

	"github.com/parley-hq/parley/internal/modeltest"
)

// The MCP panel of the NeMo UI shows the servers that the agents of the
// configuration use, also one that does not answer.
func TestNeMoListsTools(t *testing.T) {
	t.Parallel()
	kit := (&toolbox{}).serve(t)
	_, endpoint := scripted(t, func(modeltest.Request) modeltest.Reply { return modeltest.Reply{Text: "hi"} })
	p := serve(t, t.TempDir(), "--config", configured(t, fmt.Sprintf(`agents:
  - name: helper
    kind: model
    endpoint: %s
    model: m
    mcp: [{name: kit, url: %q}, {name: ghost, url: "http://127.0.0.1:1/mcp"}]
`, endpoint, kit)))
	want := `{"mcp_clients":[{"function_group":"helper/ghost","server":"ghost","transport":"streamable-http","session_healthy":false,"protected":false,` +
		`"tools":[],"total_tools":0,"available_tools":0},` +
		`{"function_group":"helper/kit","server":"kit","transport":"streamable-http","session_healthy":true,"protected":false,` +
		`"tools":[{"name":"often","description":"Counts.","server":"kit","available":true},{"name":"once","description":"Counts.","server":"kit","available":true}],` +
		`"total_tools":2,"available_tools":2}]}`
	if got := p.get("/mcp/client/tool/list"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
