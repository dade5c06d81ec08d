package llm

import (
	"fmt"
	"strings"
	"time"

	"github.com/parley-hq/parley/internal/json"
)

// EndpointError is an error that a provider's endpoint reports, as an HTTP status or
// inside a stream.
type EndpointError struct {
	Status  int           // HTTP status; 0 for an error inside a stream without one
	Code    string        // the endpoint's codes and types of the error, separated by spaces
	Message string        // the endpoint's error text
	After   time.Duration // wait that the endpoint asks for; 0 if it gives none
}

func (e *EndpointError) Error() string {
	return fmt.Sprintf("the endpoint reports an error (%d %s): %s", e.Status, e.Code, e.Message)
}

// ReportedError decodes the error field of a stream event. It returns nil if there is
// no error. Depending on the provider, the field is an object or a string, and the
// code is a word or an HTTP status.
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

// ResponseError decodes the body of an unsuccessful HTTP response.
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
