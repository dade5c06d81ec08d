package vertesia

import (
	"testing"

	"github.com/parley-hq/parley/internal/jsontest"
)

func TestNamesMatchExactly(t *testing.T) {
	start := func(b []byte) (startPayload, error) {
		p, _, err := decodeStart(b)
		return p, err
	}
	jsontest.Names(t, `{"interaction":"sys:chat","data":{"user_prompt":"SAFE"}}`, start)
	jsontest.Errors(t, start)
}
