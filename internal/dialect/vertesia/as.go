package vertesia

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// As gives the messages that an event becomes here, none when the protocol has
// no words for it. The caller has made sure that the event may be seen.
func (d *Dialect) As(_ context.Context, fact chat.Fact) (any, error) {
	e, err := fact.Event()
	if err != nil {
		return nil, err
	}
	list := []json.RawMessage{}
	for _, m := range messagesOf(&e) {
		list = append(list, m.append(nil, e.At, m.line))
	}
	return list, nil
}
