package agentconfig

import (
	"strings"
	"testing"
)

func TestRemoteKinds(t *testing.T) {
	for text, complaint := range map[string]string{
		"kind: openai-chat\n    url: http://10.0.0.7/v1\n    model: m\n    key_env: KEY\n    extra: {temperature: 0.2}\n    wait: 30s": "",
		"kind: ndjson\n    url: https://example.com/answer\n    recover: always\n    retries: 0":                                       "",
		"kind: nemo\n    url: ws://127.0.0.1:8001/websocket":                                                                           "",
		"kind: nemo\n    url: http://127.0.0.1:8001\n    transport: websocket":                                                         "",
		"kind: ag-ui\n    url: http://127.0.0.1:9001/\n    ask: false":                                                                 "",
		"kind: ag-ui":                           "parley.yaml:2: agents[0].url: it is missing",
		"kind: ndjson\n    url: localhost:9000": "parley.yaml:4: agents[0].url: \"localhost:9000\" is no address",
		"kind: ndjson\n    url: http://a\n    transport: websocket": "parley.yaml:5: agents[0].transport",
		"kind: ndjson\n    url: http://a\n    recover: perhaps":     "parley.yaml:5: agents[0].recover",
		"kind: ndjson\n    url: http://a\n    history: 0":           "parley.yaml:5: agents[0].history",
		"kind: ndjson\n    url: http://a\n    silence: -1s":         "parley.yaml:5: agents[0].silence",
		"kind: ndjson\n    url: http://a\n    modle: m":             "parley.yaml:5: agents[0].modle",
	} {
		err := construct("agents:\n  - name: a\n    " + text + "\n")
		if complaint == "" && err != nil || complaint != "" && (err == nil || !strings.HasPrefix(err.Error(), complaint)) {
			t.Errorf("%s:\n%v", text, err)
		}
	}
}
