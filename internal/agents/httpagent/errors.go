package httpagent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// Why a call was cancelled by its timers.
var (
	errIdle  = errors.New("the endpoint sent nothing for too long")
	errLimit = errors.New("limit")
)

// refusal is the error of a response whose status is not 2xx.
func (a *Agent) refusal(res *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(res.Body, 8<<10))
	why := errorText(b)
	if why != "" {
		why = ": " + why
	}
	switch {
	case res.StatusCode < 400:
		to := res.Header.Get("Location")
		if u, err := url.Parse(to); err == nil {
			to = u.Host + u.Path
		}
		return agent.Failf(agent.CodeRefused, chat.Unavailable, "the agent's endpoint %s redirects to %s, which is not followed; put the final address into the configuration", a.address(), text.Clip(to, 200))
	case res.StatusCode == 401 || res.StatusCode == 403:
		return agent.Failf(agent.CodeDenied, chat.Unavailable, "the agent's endpoint %s refused the key (status %d)%s; the operator has to look at key_env or key_file", a.address(), res.StatusCode, why)
	case res.StatusCode == 429:
		return agent.Failf(agent.CodeSlowDown, chat.SlowDown, "the agent's endpoint %s is busy (status 429)%s; try again later", a.address(), why)
	}
	fault, do := agent.CodeRefused, "look at the agent's entry in the configuration"
	switch {
	case res.StatusCode == 404:
		fault, do = agent.CodeNotFound, "look at url and model in the configuration"
	case res.StatusCode >= 500:
		fault, do = agent.CodeDown, "look at its log, then ask again"
	}
	return agent.Failf(fault, chat.Unavailable, "the agent's endpoint %s answered with status %d%s; %s", a.address(), res.StatusCode, why, do)
}

// errorText returns the reason in the body of an error response.
func errorText(b []byte) string {
	var body struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	why := strings.TrimSpace(string(b))
	if json.Unmarshal(b, &body) == nil {
		for _, v := range []json.RawMessage{body.Message, body.Error, body.Detail} { // beside a message, error is often a mere code
			if t := errorField(v); t != "" {
				why = t
				break
			}
		}
	} else if strings.HasPrefix(why, "<") {
		return "" // a web page
	}
	return text.Clip(strings.ToValidUTF8(strings.Join(strings.Fields(why), " "), "\uFFFD"), 300)
}

// errorField reads an error that is a string or an object with a message.
func errorField(v json.RawMessage) string {
	var text string
	if json.Unmarshal(v, &text) == nil {
		return text
	}
	var o struct {
		Message string `json:"message"`
		Details string `json:"details"`
	}
	if json.Unmarshal(v, &o) == nil && o.Message != "" {
		if o.Details != "" && o.Details != o.Message {
			return o.Message + ": " + o.Details
		}
		return o.Message
	}
	if len(v) > 0 && string(v) != "null" {
		return string(v)
	}
	return ""
}

// connectionError is the error of a failed connection; cause is errIdle or
// errLimit when a timer cancelled it.
func (a *Agent) connectionError(cause, err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(cause, errIdle):
		return agent.Failf(agent.CodeTimeout, chat.Unavailable, "the agent's endpoint %s was silent for %s and was given up; ask again, or raise silence in the configuration", a.address(), a.opt.Idle).Because(errIdle)
	case errors.Is(cause, errLimit):
		return agent.Failf(agent.CodeTimeout, chat.Unavailable, "the agent's endpoint %s did not finish within %s and was given up; ask for less at once, or raise limit in the configuration", a.address(), a.opt.Limit)
	case errors.Is(err, syscall.ECONNREFUSED):
		return agent.Failf(agent.CodeDown, chat.Unavailable, "the agent's endpoint %s does not accept connections; is it running?", a.address()).Because(err)
	case chat.CodeOf(err) == chat.TooLarge:
		return err
	case errors.As(err, &timeout) && timeout.Timeout():
		return agent.Failf(agent.CodeTimeout, chat.Unavailable, "the agent's endpoint %s did not answer in time; ask again, or raise wait in the configuration", a.address()).Because(err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return agent.Failf(agent.CodeDown, chat.Unavailable, "the agent's endpoint %s cannot be reached; is the address right?", a.address()).Because(err)
	}
	return a.broken(err)
}

// broken is the error of an answer that ends too early.
func (a *Agent) broken(err error) error {
	e := agent.Failf(agent.CodeCutOff, chat.Unavailable, "the agent's endpoint %s broke off in the middle of its answer; what there is of it is kept. Ask again", a.address())
	if err != nil {
		return e.Because(err)
	}
	return e
}

// unreadable is the error of an answer that does not follow the protocol.
func (a *Agent) unreadable(what string, err error) error {
	return agent.Failf(agent.CodeUnreadable, chat.Unavailable, "the agent's endpoint %s sent something that cannot be read: %s; is it an endpoint of kind %s?", a.address(), what, a.opt.Protocol).Because(err)
}

// tooManyPrompts is the error of a round with more than maxPrompts prompts.
func (a *Agent) tooManyPrompts() error {
	return a.unreadable(fmt.Sprintf("more than %d questions at once", maxPrompts), nil)
}

// tooLarge is the error of an answer over the size limit.
func (a *Agent) tooLarge() error {
	return agent.Failf(agent.CodeTooLarge, chat.TooLarge, "the answer of the agent's endpoint is larger than %d MiB; raise max_mib in the configuration if it may be", a.opt.Max>>20)
}

// emptyAnswer is the error of an answer without content.
func (a *Agent) emptyAnswer() error {
	return agent.Failf(agent.CodeEmpty, chat.Unavailable, "the agent's endpoint %s ended its answer without saying anything; ask again", a.address())
}

// reported is an error that the endpoint sends in its answer.
func (a *Agent) reported(message string) error {
	if message = strings.TrimSpace(strings.ToValidUTF8(message, "\uFFFD")); message == "" {
		message = "it gave no reason"
	}
	const says = "the agent reports an error: " // said once also when agents of Parley servers call one another
	return agent.Failf(agent.CodeReported, chat.Unavailable, says+"%s", text.Clip(strings.TrimPrefix(message, says), 1000))
}

// address is the endpoint's address without password and query, for messages.
func (a *Agent) address() string {
	return fmt.Sprintf("%s://%s%s", a.url.Scheme, a.url.Host, a.url.Path)
}
