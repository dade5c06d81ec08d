package x1

import (
	"testing"

	"github.com/parley-hq/parley/internal/jsontest"
)

func TestNamesMatchExactly(t *testing.T) {
	message := func(b []byte) (Message, error) { return decode("s", b) }
	jsontest.Names(t, `{"session_id":"s","type":"user.message","sequence":3,"payload":{"text":"SAFE"},"client_id":"c","expires_at":5,"epoch":2}`, message)
	jsontest.Errors(t, message)
}
