package pages

import (
	"context"
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// behind is a node that has to wait for events.
type behind struct {
	Sessions
	waited chat.Seq // for the event with this number
}

func (b *behind) GetAt(_ context.Context, _ chat.Caller, _ chat.SessionID, seq chat.Seq) (chat.Session, error) {
	b.waited = seq
	return chat.Session{}, chat.Errorf(chat.Unavailable, "it is behind")
}

// A page answers prompts that this node does not have yet.
func TestAPageWaitsForThePromptsThatItAnswers(t *testing.T) {
	prompt := func(seq chat.Seq) string { return chat.MakeID(7, seq).Text(chat.PromptPrefix) }
	for _, one := range []struct {
		ids  []string
		want chat.Seq
	}{
		{nil, 0},
		{[]string{"call-1", chat.MakeID(7, 9).Text(chat.TurnPrefix)}, 0}, // no prompts of the server
		{[]string{prompt(12) + "/call-1", "call-2", prompt(4)}, 12},
	} {
		b := &behind{}
		s := New("test", Options{Sessions: b}, nil)
		err := s.Asked(t.Context(), chat.Trusted, "s", slices.Values(one.ids))
		if b.waited != one.want || (chat.CodeOf(err) == chat.Unavailable) != (one.want > 0) {
			t.Errorf("%q: waited for %d, %v", one.ids, b.waited, err)
		}
	}
}
