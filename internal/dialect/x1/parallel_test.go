package x1

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// Several calls in one step are published one by one, and each result names its call.
func TestCallsOfOneStep(t *testing.T) {
	w := newServer(t, options{})
	c := w.dial()
	events := c.follow(Subject("s1", Events))
	c.say("s1", Input, message(`/tools search {"q":1}; broken! {}; count {"n":2}`))
	events.until("the end of the turn", typ("turn.completed"))
	var got []string
	for _, e := range events.events() {
		switch b := e.Body.(type) {
		case chat.AgentToolCall:
			got = append(got, fmt.Sprint("call ", b.CallID, " ", b.Tool, " ", string(b.Params)))
		case chat.AgentToolResult:
			got = append(got, fmt.Sprint("result ", b.CallID, " ", b.Tool, " ", string(b.Result)))
		case chat.AgentToolError:
			got = append(got, fmt.Sprint("error ", b.CallID, " ", b.Tool, " ", b.Error))
		case chat.AgentText:
			got = append(got, b.Text)
		}
	}
	want := []string{
		`call c3-tools-1 search {"q":1}`, `call c3-tools-2 broken {}`, `call c3-tools-3 count {"n":2}`,
		`result c3-tools-3 count {"n":2}`, `error c3-tools-2 broken broken failed on request`, `result c3-tools-1 search {"q":1}`,
		"search gave {\"q\":1}\nbroken failed: broken failed on request\ncount gave {\"n\":2}",
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
	w.complete("s1")
}
