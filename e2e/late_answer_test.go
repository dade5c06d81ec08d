package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/dialecttest"
)

// TestLateAnswersAreTold: two clients of different dialects approve the same call, one after the other. The first one is not told
// that its answer came late; the second one is, in the dialects that can tell it.
func TestLateAnswersAreTold(t *testing.T) {
	t.Parallel()
	s := startShared(t, t.TempDir())
	for _, first := range dialects {
		for _, second := range dialects {
			if first == second {
				continue
			}
			t.Run(first+" before "+second, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				id := fmt.Sprintf("late-%s-%s", first, second)
				s.post("/parley/v1/sessions", `{"id":"`+id+`","agent":"demo"}`)
				clients, asked := map[string]dialecttest.Client{}, map[string]dialecttest.Seen{}
				for _, d := range []string{first, second} {
					c, err := dialecttest.New(d, dialecttest.Options{URLs: []string{"http://" + s.addr}, NATS: []string{s.bus}, Session: id})
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					clients[d] = c
				}
				var err error
				if asked[first], err = clients[first].Say(ctx, "m", `/approve deploy {"x":1}`); err != nil {
					t.Fatal(err)
				}
				turn := chat.TurnID("")
				for e, err := range s.connect("").Events(ctx, chat.SessionID(id), client.EventQuery{Types: []string{"turn.started"}}) {
					if err != nil {
						t.Fatal(err)
					}
					turn = e.Turn
				}
				if asked[second], err = clients[second].Join(ctx, string(turn)); err != nil {
					t.Fatal(err)
				}
				for _, d := range []string{first, second} {
					p := asked[d].Prompt
					p.Approval = true
					seen, err := clients[d].Answer(ctx, p, "key-"+d, "")
					if err != nil {
						t.Fatal(d, err)
					}
					if want := d == second && dialecttest.TellsLate(d); seen.Late != want {
						t.Errorf("%s: told that the answer came late: %t", d, seen.Late)
					}
				}
			})
		}
	}
}
