package llm

import (
	"fmt"
	"strings"
	"time"

	"github.com/parley-hq/parley/internal/json"
)

// EndpointError is an error that a provider's endpoint reports: as the status of
// an HTTP response, or inside a stream.
type EndpointError struct {
	Status  int           // of HTTP; 0 when the error inside a stream has none
	Code    string        // the endpoint's names for the kind of the error, separated by spaces
	Message string        // for people
	After   time.Duration // how long the endpoint asks to wait; 0 when it does not say
}

func (e *EndpointError) Error() string {
	return fmt.Sprintf("the endpoint reports an error (%d %s): %s", e.Status, e.Code, e.Message)
}

// ReportedError reads the error field of an event of a stream. It returns nil when
// there is no error. Providers write an object or a text; the code is a word or,
// with some endpoints, a status of HTTP.
func ReportedError(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var body struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Status  string `json:"status"`
		Code    any    `json:"code"`
	}
	if json.Unmarshal(raw, &body) != nil && json.Unmarshal(raw, &body.Message) != nil || body.Message == "" {
		body.Message = string(raw)
	}
	e := &EndpointError{Message: body.Message}
	if n, ok := body.Code.(float64); ok && n >= 400 {
		e.Status = int(n)
	}
	word, _ := body.Code.(string)
	e.Code = strings.Join(strings.Fields(word+" "+body.Type+" "+body.Status), " ")
	return e
}

// ResponseError reads the body of an HTTP response that is not a success.
func ResponseError(status int, body []byte, after time.Duration) *EndpointError {
	var wrapped struct {
		Error json.RawMessage `json:"error"`
	}
	e := &EndpointError{Message: string(body)}
	if json.Unmarshal(body, &wrapped) == nil {
		if reported, ok := ReportedError(wrapped.Error).(*EndpointError); ok {
			e = reported
		}
	}
	e.Status, e.After = status, after
	return e
}
