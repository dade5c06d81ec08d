package aisdk

import (
	"testing"

	"github.com/parley-hq/parley/internal/pages"
)

func TestChunksAreWrittenAsTheirFieldsSay(t *testing.T) {
	for _, c := range []chunk{
		{Type: chunkTextDelta, ID: "b1", Delta: "plain"},
		{Type: chunkThinkDelta, ID: "b\"2", Delta: "a \"quote\", a <tag> & a line\nend, ünïcode \u2028 \xff"},
		{Type: chunkFinish, Finish: finishStop},
	} {
		if got, want := string(c.appendJSON([]byte("x "))), "x "+string(pages.Marshal(c)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
