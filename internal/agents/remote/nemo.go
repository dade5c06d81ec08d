package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// nemo calls a NeMo Agent Toolkit server.
func nemo(ctx context.Context, a *Agent, r *round) ([]question, error) {
	if a.opt.Socket {
		return nil, nemoSocket(ctx, a, r)
	}
	return nil, nemoHTTP(ctx, a, r)
}

// nemoURL is an address of the server: the configured one, or below it when that
// has no path.
func (a *Agent) nemoURL(path string) string {
	u := *a.url
	if strings.Trim(u.Path, "/") == "" {
		u.Path = path
	}
	switch u.Scheme {
	case "ws":
		u.Scheme = "http"
	case "wss":
		u.Scheme = "https"
	}
	return u.String()
}

// conversation is the name that a line of a session has there.
func conversation(turn *agent.Turn) string {
	id := string(turn.Ref().Session)
	if turn.Workstream != "" {
		id += "." + turn.Workstream
	}
	return id
}

// nemoHTTP speaks by the HTTP stream: /chat/stream, or /v1/chat/stream where the
// workflow asks people.
func nemoHTTP(ctx context.Context, a *Agent, r *round) error {
	all, err := a.history(ctx, r.turn)
	if err != nil {
		return err
	}
	body := map[string]any{"stream": true, "model": "workflow"}
	if a.opt.Model != "" {
		body["model"] = a.opt.Model
	}
	maps.Copy(body, a.opt.Extra)
	if strings.Contains(a.url.Path, "generate") || strings.Contains(a.url.Path, "workflow") {
		delete(body, "model")
		delete(body, "stream")
		if _, given := body["input_message"]; !given {
			body["input_message"] = r.turn.Text()
		}
	} else {
		body["messages"] = a.chatMessages(ctx, r.turn, all)
	}
	header := http.Header{}
	header.Set("Conversation-Id", conversation(r.turn))
	header.Set("User-Message-Id", string(r.turn.Ref().Turn))
	s, err := a.post(ctx, a.nemoURL("/chat/stream"), body, "text/event-stream", header)
	if err != nil {
		return err
	}
	defer s.close()
	c := &completion{a: a, s: r.s, calls: map[int]*toolDraft{}}
	// Only the older addresses mark the end of their streams; the others just end.
	c.ended = !strings.HasSuffix(strings.TrimRight(a.nemoURL("/chat/stream"), "/"), "/chat/stream") || strings.Contains(a.url.Path, "/v1/chat/stream")
	st := &steps{s: r.s}
	c.told = func() bool { return st.told } // the agent's model says what it calls, and the toolkit that it ran
	if !streams(s.res) {
		err = c.whole(ctx, s)
	} else {
		err = c.read(ctx, s,
			func(name, value string) (bool, error) { return a.nemoField(ctx, r, st, name, value) },
			func(name, data string) (bool, error) { return a.nemoEvent(ctx, r, s, name, data) })
	}
	if err != nil {
		return errors.Join(err, st.settle(context.WithoutCancel(ctx), true))
	}
	if err := st.settle(ctx, false); err != nil {
		return err
	}
	if !r.s.stored {
		return a.emptyAnswer()
	}
	return nil
}

// nemoField handles the fields of the stream that only NeMo has.
func (a *Agent) nemoField(ctx context.Context, r *round, st *steps, name, value string) (known bool, err error) {
	switch name {
	case "intermediate_data":
		var step nemoStep
		if err := json.Unmarshal([]byte(value), &step); err != nil {
			return true, a.unreadable("a step that is no JSON", err)
		}
		return true, st.take(ctx, step)
	case "observability_trace":
		return true, a.nemoTrace(ctx, r, []byte(value))
	}
	return false, nil
}

// nemoEvent handles the events of the stream that only NeMo has.
func (a *Agent) nemoEvent(ctx context.Context, r *round, s *stream, name, data string) (known bool, err error) {
	switch name {
	case "interaction_required":
		return true, a.nemoInteraction(ctx, r, s, data)
	case "oauth_required":
		return true, a.nemoConsent(ctx, r, data)
	}
	return false, nil
}

func (a *Agent) nemoTrace(ctx context.Context, r *round, b []byte) error {
	var t struct {
		ID string `json:"observability_trace_id"`
	}
	if json.Unmarshal(b, &t) != nil || t.ID == "" {
		return nil
	}
	_, err := r.s.store(ctx, chat.AgentTrace{TraceID: text.Clip(t.ID, 200)})
	return err
}

// nemoPrompt is a question of a NeMo workflow.
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

// request is the question in the words of the log.
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
		for _, u := range []string{p.OAuthURL, p.RedirectURL, p.Text} {
			if u != "" {
				q.URL = u
				break
			}
		}
	case chat.InputBinary, chat.InputRadio, chat.InputCheckbox, chat.InputDropdown:
		used := map[string]bool{}
		for i, o := range p.Options {
			// The defaults of NeMo's models give every option the same id.
			opt := chat.Option{ID: o.ID, Label: o.Label, Value: plain(o.Value), Description: o.Description}
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

// reply is the answer as one text, which is all that NeMo has.
func reply(b chat.UserInputResponse) string {
	if len(b.Values) > 0 {
		return strings.Join(b.Values, ", ")
	}
	return b.Text
}

// nemoInteraction asks what the workflow asks, while its stream waits, and tells
// it the answer.
func (a *Agent) nemoInteraction(ctx context.Context, r *round, s *stream, data string) error {
	var in struct {
		Prompt      nemoPrompt `json:"prompt"`
		ResponseURL string     `json:"response_url"`
	}
	if err := json.Unmarshal([]byte(data), &in); err != nil {
		return a.unreadable("a question that is no JSON", err)
	}
	q := in.Prompt.request()
	again := s.pauseTimers()
	answer, err := r.s.ask(ctx, q)
	again()
	if errors.Is(err, agent.ErrExpired) {
		return nil // the workflow knows its own time
	}
	if err != nil || q.InputType == chat.InputNotification {
		return err
	}
	to, err := a.below(in.ResponseURL)
	if err != nil {
		return err
	}
	res, err := a.post(ctx, to, map[string]any{"response": in.Prompt.response(answer)}, "application/json", nil)
	if err != nil {
		return err
	}
	res.close()
	return nil
}

// below resolves an address that the server names. It has to be on the same
// server: the key goes along.
func (a *Agent) below(ref string) (string, error) {
	base := a.nemoURL("/")
	u, err := a.url.Parse(ref)
	if err == nil && u.Host == a.url.Host {
		if u.Scheme == "ws" || u.Scheme == "wss" {
			u.Scheme = strings.Split(base, ":")[0]
		}
		return u.String(), nil
	}
	return "", a.unreadable("it wants the answer at another server", err)
}

// response is an answer in the words of HTTP.
func (p *nemoPrompt) response(b chat.UserInputResponse) map[string]any {
	text := reply(b)
	if len(p.Options) == 0 {
		return map[string]any{"type": "text", "text": text}
	}
	chosen := map[string]any{"id": "default", "label": "default", "value": text}
	for _, o := range p.Options {
		if plain(o.Value) == text {
			chosen = map[string]any{"id": o.ID, "label": o.Label, "value": o.Value}
			if p.InputType != string(chat.InputBinary) {
				chosen["description"] = o.Description
			}
		}
	}
	return map[string]any{"type": p.InputType, "selected_option": chosen}
}

// nemoConsent shows where consent is given. The workflow goes on by itself.
func (a *Agent) nemoConsent(ctx context.Context, r *round, data string) error {
	var in struct {
		URL string `json:"auth_url"`
	}
	if json.Unmarshal([]byte(data), &in) != nil || in.URL == "" {
		return nil
	}
	_, err := r.s.step(ctx, consentNote(in.URL))
	return err
}

// consentNote tells a person where to give consent, without waiting: the answer
// goes to NeMo, not to us.
func consentNote(url string) chat.Body {
	return chat.AgentInputRequest{InputType: chat.InputNotification, Text: "The agent needs your consent: " + url, URL: url}
}

func now() string { return time.Now().UTC().Format(time.RFC3339Nano) }
