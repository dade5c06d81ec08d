package letta

import (
	"testing"

	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/jsontest"
)

func TestFieldNamesMatchExactly(t *testing.T) {
	send := func(b []byte) (s sendBody, err error) { return s, edge.Decode(b, &s) }
	jsontest.Names(t, `{"messages":[{"role":"user"}],"input":"x","agent_id":"a","streaming":true,"max_steps":3,"override_system":"s"}`, send)
	jsontest.Errors(t, send)
	message := func(b []byte) (inputMessage, error) {
		in, _, err := decodeMessage("messages[0]", b)
		return in, err
	}
	jsontest.Names(t, `{"role":"user","content":"SAFE","otid":"o","name":"n"}`, message)
	body := func(b []byte) (m messageBody, err error) {
		_, _, err = decodeMessage("messages[0]", b)
		return m, err
	}
	jsontest.Errors(t, body)
}
