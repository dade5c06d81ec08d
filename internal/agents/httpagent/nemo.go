package httpagent

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// nemo calls a NeMo Agent Toolkit server.
func nemo(ctx context.Context, a *Agent, r *round) ([]promptRequest, error) {
	if a.opt.Socket {
		return nil, nemoSocket(ctx, a, r)
	}
	return nil, nemoHTTP(ctx, a, r)
}

// nemoURL is the configured address with an HTTP scheme, and with the given path
// when it has none.
func (a *Agent) nemoURL(path string) string {
	u := *a.url
	if strings.Trim(u.Path, "/") == "" {
		u.Path = path
	}
	u.Scheme = httpScheme(u.Scheme)
	return u.String()
}

func httpScheme(scheme string) string {
	switch scheme {
	case "ws":
		return "http"
	case "wss":
		return "https"
	}
	return scheme
}

// threadID is the endpoint's id of the conversation on the main line or a
// workstream of a session.
func threadID(turn *agent.Turn) string {
	id := string(turn.Ref().Session)
	if turn.Workstream != "" {
		id += "." + turn.Workstream
	}
	return id
}

// nemoPrompt is a prompt of a NeMo workflow.
type nemoPrompt struct {
	InputType   string       `json:"input_type"`
	Text        string       `json:"text"`
	Placeholder string       `json:"placeholder"`
	Required    *bool        `json:"required"`
	Timeout     *float64     `json:"timeout"`
	Error       string       `json:"error"`
	Options     []nemoOption `json:"options"`
	OAuthURL    string       `json:"oauth_url"`
	RedirectURL string       `json:"redirect_url"`
}

type nemoOption struct {
	ID          string          `json:"id"`
	Label       string          `json:"label"`
	Value       json.RawMessage `json:"value"` // of any type in a binary choice
	Description string          `json:"description"`
}

// request is the prompt as an event.
func (p *nemoPrompt) request() chat.AgentInputRequest {
	q := chat.AgentInputRequest{
		InputType: chat.InputType(p.InputType), Text: p.Text, Placeholder: p.Placeholder, Required: p.Required, Error: p.Error,
	}
	if p.Timeout != nil && *p.Timeout > 0 {
		q.Timeout = min(*p.Timeout, chat.MaxTimeout)
	}
	switch q.InputType {
	case chat.InputText, chat.InputNotification:
	case chat.InputOAuth:
		q.URL = cmp.Or(p.OAuthURL, p.RedirectURL, p.Text)
	case chat.InputBinary, chat.InputRadio, chat.InputCheckbox, chat.InputDropdown:
		used := map[string]bool{}
		for i, o := range p.Options {
			// By default NeMo gives every option the same id.
			opt := chat.Option{ID: o.ID, Label: o.Label, Value: json.Text(o.Value), Description: o.Description}
			if opt.ID == "" || opt.ID == "default" || used[opt.ID] {
				opt.ID = fmt.Sprintf("o%d", i+1)
			}
			if opt.Label == "" || opt.Label == "default" {
				opt.Label = opt.Value
			}
			used[opt.ID] = true
			q.Options = append(q.Options, opt)
		}
		if len(q.Options) == 0 {
			q.InputType = chat.InputText
		}
	default:
		q.InputType = chat.InputText
	}
	return q
}

// answerText is an answer as one text.
func answerText(b chat.UserInputResponse) string {
	return cmp.Or(strings.Join(b.Values, ", "), b.Text)
}

// storeTrace stores the id of the workflow's trace.
func (r *round) storeTrace(ctx context.Context, b []byte) error {
	var t struct {
		ID string `json:"observability_trace_id"`
	}
	if json.Unmarshal(b, &t) != nil || t.ID == "" {
		return nil
	}
	_, err := r.out.store(ctx, chat.AgentTrace{TraceID: text.Clip(t.ID, 200)})
	return err
}

// storeConsent shows the address of a consent page. Nobody waits for an answer:
// the page reports to NeMo, and the workflow continues by itself.
func (r *round) storeConsent(ctx context.Context, url string) error {
	if err := r.out.endBlock(ctx); err != nil {
		return err
	}
	_, err := r.out.store(ctx, chat.AgentInputRequest{InputType: chat.InputNotification, Text: "The agent needs your consent: " + url, URL: url})
	return err
}
