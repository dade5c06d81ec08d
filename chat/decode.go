package chat

import (
	"errors"

	"github.com/parley-hq/parley/internal/json"
)

// plain reads an object into a kind without synonyms.
func plain[B any](p json.RawMessage) (b B, err error) {
	return b, object(p, &b)
}

// object reads p; a missing or null payload is an empty object.
func object(p json.RawMessage, into any) error {
	p = json.SkipSpace(p)
	if len(p) == 0 || string(p) == "null" {
		return nil
	}
	if p[0] != '{' {
		return Errorf(Invalid, "it must be an object")
	}
	return json.Unmarshal(p, into)
}

// lax reads the other names that x1 has for fields. It returns false if the payload has another form.
func lax(p json.RawMessage, into any) bool {
	return len(p) > 0 && json.Unmarshal(p, into) == nil
}

// JSONProblem words an error of reading JSON for the client that sent it: the field by its path, what is there and
// what should be.
func JSONProblem(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Msg
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return "it is not valid JSON: " + err.Error()
	}
	return err.Error()
}

// firstRaw returns the first value that is there.
func firstRaw(values ...json.RawMessage) json.RawMessage {
	for _, v := range values {
		if len(v) > 0 {
			return v
		}
	}
	return nil
}
