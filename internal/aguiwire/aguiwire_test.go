package aguiwire

import (
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

func TestTextOfAContent(t *testing.T) {
	for content, want := range map[string]string{
		`"a text"`: "a text", `null`: "", ``: "", `{"ok":true}`: `{"ok":true}`,
		`[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","value":"x"}},{"type":"text","text":"b"}]`: "a\nb",
	} {
		if got := Text(json.RawMessage(content)); got != want {
			t.Errorf("%s is %q, not %q", content, got, want)
		}
	}
}

func TestTokensKeepAllCounts(t *testing.T) {
	u := chat.AgentUsage{Model: "m", Usage: chat.Usage{InputTokens: 1, OutputTokens: 2, CacheCreationTokens: 3, CacheReadTokens: 4, ReasoningTokens: 5}}
	tokens := newTokens(u)
	if tokens.Total != 3 || tokens.Usage() != u {
		t.Errorf("got %+v", tokens)
	}
}
