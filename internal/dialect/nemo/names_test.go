package nemo

import (
	"testing"

	"github.com/parley-hq/parley/internal/jsontest"
)

func TestNamesMatchExactly(t *testing.T) {
	jsontest.Names(t, `{"type":"user_message","schema_type":"chat","id":"a","conversation_id":"c","thread_id":"t","parent_id":"p","content":{"messages":[]}}`, decodeFrame)
	jsontest.Errors(t, decodeFrame)
}
