package x1

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// As gives a stored event in this dialect's words.
func (d *Dialect) As(_ context.Context, f chat.Fact) (any, error) {
	b, err := Encode(f)
	return json.RawMessage(b), err
}
