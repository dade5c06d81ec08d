package auth

import (
	"encoding/json"
	"testing"

	"github.com/parley-hq/parley/internal/jsontest"
)

// The JWT library reads claims with encoding/json, which ignores the case of names.
func TestNamesOfClaimsMatchExactly(t *testing.T) {
	read := func(b []byte) (c claims, err error) { return c, json.Unmarshal(b, &c) }
	jsontest.Names(t, `{"sub":"ann","exp":5,"workspace":"w","scope":"user","scopes":["user"],"email":"e","name":"n"}`, read)
}
