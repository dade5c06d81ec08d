package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// A session is erased while others of its partition are written to: its text is in no file of any node when the receipt names no
// node that still has it.
func TestErasedTextLeavesTheFilesOfABusyCluster(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	c := startNodes(t, "")
	ids := c.onePerPartition(ctx)
	id := ids[1]
	busy, stop := make(chan error, 4), make(chan struct{})
	written := make(chan struct{}, 1000)
	for w := range cap(busy) {
		other := chat.SessionID(fmt.Sprint("busy-", w))
		for n := 0; c.owner(0, other) != c.owner(0, id); n++ {
			other = chat.SessionID(fmt.Sprint("busy-", w, "-", n))
		}
		cl := c.all[w%3].connect("")
		if _, err := cl.Create(ctx, client.NewSession{ID: other, Agent: chat.NoAgent}); err != nil {
			t.Fatal(err)
		}
		go func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					busy <- nil
					return
				default:
				}
				if _, err := cl.Send(ctx, other, chat.UserMessage{Text: "busy"}, fmt.Sprint("b", n)); err != nil {
					busy <- err
					return
				}
				select {
				case written <- struct{}{}:
				default:
				}
			}
		}()
	}
	const secret = "the-text-of-a-person-who-wants-it-erased"
	for n := range 3 {
		if _, err := c.all[n].connect("").Send(ctx, id, chat.UserMessage{Text: secret}, fmt.Sprint("s", n)); err != nil {
			t.Fatal(err)
		}
	}
	<-written
	if len(filesWith(t, c.dir, secret)) == 0 {
		t.Fatal("the search finds nothing")
	}
	code, body, _ := c.all[0].do(call{method: "DELETE", path: "/parley/v1/sessions/" + string(id)})
	var receipt chat.Receipt
	if err := json.Unmarshal([]byte(body), &receipt); err != nil || code != http.StatusOK {
		t.Fatal(code, body, err)
	}
	if found := filesWith(t, c.dir, secret); len(receipt.Pending) == 0 && len(found) > 0 {
		t.Errorf("no node is pending, and the text is still in %v", found)
	}
	// A machine with other work may need more time than the writes of a partition may wait. The receipt says so then.
	until(t, "the text is in no file", func() bool { return len(filesWith(t, c.dir, secret)) == 0 })
	close(stop)
	for range cap(busy) {
		if err := <-busy; err != nil {
			t.Error(err)
		}
	}
	c.same()
}

// A session is erased while a node is down. The receipt names the node, and the node never answers with the session again.
func TestANodeThatWasDownNeverServesAnErasedSession(t *testing.T) {
	t.Parallel()
	c := startNodes(t, "")
	c.balanced()
	ids := c.onePerPartition(t.Context())
	c.write(t.Context(), 0, ids, 3, "text")
	c.all[2].kill()
	var receipt chat.Receipt
	if body := c.all[0].must(call{method: "DELETE", path: "/parley/v1/sessions/" + string(ids[0])}); json.Unmarshal([]byte(body), &receipt) != nil || !slices.Equal(receipt.Pending, []string{c.ids[2]}) {
		t.Fatalf("the receipt is %s", body)
	}
	c.start(2)
	until(t, "the session is gone", func() bool {
		res, err := http.Get(c.all[2].url + "/parley/v1/sessions/" + string(ids[0]))
		if err != nil {
			return false
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusServiceUnavailable && res.StatusCode != http.StatusGone {
			t.Fatalf("the node answers with %s", res.Status)
		}
		return res.StatusCode == http.StatusGone
	})
}
