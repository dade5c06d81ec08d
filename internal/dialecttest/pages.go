package dialecttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/parley-hq/parley/internal/sse"
)

// PageFrame is a chunk of the AI SDK or an event of AG-UI.
type PageFrame struct {
	Type     string `json:"type"`
	Delta    string `json:"delta"`
	Call     string `json:"toolCallId"`
	Approval string `json:"approvalId"`
	Reason   string `json:"finishReason"`
	Name     string `json:"name"`
	Error    string `json:"errorText"`
	Message  string `json:"message"`

	Outcome struct {
		Type       string `json:"type"`
		Interrupts []struct {
			ID string `json:"id"`
		} `json:"interrupts"`
	} `json:"outcome"`

	ID  string `json:"-"` // of the SSE event
	Raw string `json:"-"`
}

// pageOf reads a frame.
func pageOf(raw sse.Frame) (f PageFrame, err error) {
	if err = json.Unmarshal(raw.Data, &f); err != nil {
		err = fmt.Errorf("%w: %s", err, raw.Data)
	}
	f.ID, f.Raw = raw.ID, string(raw.Data)
	return f, err
}

// aisdk is a page of the AI SDK with WorkflowChatTransport: it resumes a run by the number of chunks that it has.
type aisdk struct {
	base
	turn string // the id of the assistant's message
}

// AISDKMessage is the body of a request that sends a message.
func AISDKMessage(chatID, key, text string) string {
	return `{"id":` + Quote(chatID) + `,"trigger":"submit-message","messages":[{"id":` + Quote(key) + `,"role":"user","parts":[{"type":"text","text":` + Quote(text) + `}]}]}`
}

// AISDKPart is the body of a request that sends the assistant's message with one part that a person has answered.
func AISDKPart(chatID, message, part string) string {
	return fmt.Sprintf(`{"id":%q,"trigger":"submit-message","messageId":%q,"messages":[{"id":%q,"role":"assistant","parts":[{"type":"step-start"},%s]}]}`, chatID, message, message, part)
}

func (a *aisdk) Say(ctx context.Context, key, text string) (Seen, error) {
	return a.follow(ctx, "", AISDKMessage(a.opt.Session, key, text))
}

func (a *aisdk) Join(ctx context.Context, turn string) (Seen, error) { return a.follow(ctx, turn, "") }

func (a *aisdk) Answer(ctx context.Context, p Prompt, _, text string) (Seen, error) {
	part := fmt.Sprintf(`{"type":"tool-ask_person","toolCallId":%q,"state":"output-available","input":{},"output":%q}`, p.Request, text)
	if p.Approval {
		part = fmt.Sprintf(`{"type":"dynamic-tool","toolName":"deploy","toolCallId":%q,"state":"approval-responded","input":{},"approval":{"id":%q,"approved":true}}`, p.Call, p.Request)
	}
	return a.follow(ctx, "", AISDKPart(a.opt.Session, a.turn, part))
}

func (a *aisdk) Stop(ctx context.Context, _ string) error {
	return (&base{opt: a.opt, http: a.http}).call(ctx, "POST", "/api/chat/"+a.opt.Session+"/stop", "", nil)
}

// follow sends the body, or asks for a run, and reads until the response is complete.
func (a *aisdk) follow(ctx context.Context, run, body string) (seen Seen, err error) {
	a.opt.Progress()
	text, count := "", 0
	var last PageFrame
	err = a.again(ctx, func(url string) error {
		q := request{method: "POST", path: "/api/chat", body: body}
		if run != "" {
			q = request{method: "GET", path: fmt.Sprintf("/api/chat/%s/stream?startIndex=%d", run, count)}
		}
		return a.stream(ctx, url, q, func(res *http.Response) error {
			if res.StatusCode != http.StatusOK {
				return &Refused{Status: res.StatusCode, Body: "the run " + run + " cannot be resumed"}
			}
			if id := res.Header.Get("x-workflow-run-id"); id != "" {
				run = id
			}
			return nil
		}, func(raw sse.Frame) (bool, error) {
			if string(raw.Data) == "[DONE]" {
				return last.Type == "finish", nil
			}
			f, err := pageOf(raw)
			if err != nil {
				return false, err
			}
			count++
			switch f.Type {
			case "start":
				var start struct{ MessageID string }
				if err := json.Unmarshal(raw.Data, &start); err != nil {
					return false, err
				}
				a.turn = start.MessageID
			case "text-delta":
				text += f.Delta
			case "tool-input-available":
				seen.Prompt = Prompt{Request: f.Call}
			case "tool-approval-request":
				seen.Prompt = Prompt{Request: f.Approval, Call: f.Call}
			case "abort":
				seen.End = Stopped
			case "error":
				return false, fmt.Errorf("an error came: %s", f.Raw)
			}
			last = f
			return false, nil
		})
	})
	seen.Texts = []string{text}
	switch {
	case err != nil:
	case last.Reason == "tool-calls":
		seen.End = Asks
	case last.Reason == "stop":
		seen.End = Done
	case seen.End != Stopped:
		err = fmt.Errorf("the response ended with %s", last.Raw)
	}
	return seen, err
}

// agui is a client of AG-UI that resumes after the id of the last frame.
type agui struct{ base }

// AGUIRun is the body of an AG-UI run.
func AGUIRun(thread, run, messages, resume string) string {
	return `{"protocolVersion":"1.0","threadId":` + Quote(thread) + `,"runId":` + Quote(run) + `,"state":{},"messages":` + messages + `,"tools":[],"context":[],"resume":` + resume + `}`
}

// AGUIMessage is the body of an AG-UI run that sends a message.
func AGUIMessage(thread, key, text string) string {
	return AGUIRun(thread, "r-"+key, `[{"id":`+Quote(key)+`,"role":"user","content":`+Quote(text)+`}]`, `[]`)
}

// AGUIAnswer is the body of an AG-UI run that answers an interrupt.
func AGUIAnswer(thread, run, interrupt, payload string) string {
	return AGUIRun(thread, run, `[]`, `[{"interruptId":`+Quote(interrupt)+`,"status":"resolved","payload":`+payload+`}]`)
}

func (a *agui) Say(ctx context.Context, key, text string) (Seen, error) {
	return a.follow(ctx, request{method: "POST", path: "/ag-ui/default", body: AGUIMessage(a.opt.Session, key, text)})
}

func (a *agui) Join(ctx context.Context, turn string) (Seen, error) {
	return a.follow(ctx, request{method: "GET", path: "/ag-ui/default?offset=-1&runId=" + turn})
}

func (a *agui) Answer(ctx context.Context, p Prompt, key, text string) (Seen, error) {
	payload := `{"value":` + Quote(text) + `}`
	if p.Approval {
		payload = `{"approved":true}`
	}
	return a.follow(ctx, request{method: "POST", path: "/ag-ui/default", body: AGUIAnswer(a.opt.Session, "r-"+key, p.Request, payload)})
}

func (a *agui) Stop(ctx context.Context, _ string) error {
	return (&base{opt: a.opt, http: a.http}).call(ctx, "POST", "/api/copilotkit/agent/default/stop/"+a.opt.Session, `{}`, nil)
}

// follow sends a request and reads the run until its end. It is the same request again that resumes, with the last id.
func (a *agui) follow(ctx context.Context, q request) (seen Seen, err error) {
	a.opt.Progress()
	text := ""
	err = a.again(ctx, func(url string) error {
		return a.stream(ctx, url, q, nil, func(raw sse.Frame) (bool, error) {
			f, err := pageOf(raw)
			if err != nil {
				return false, err
			}
			if f.ID != "" {
				q.last = f.ID
			}
			switch f.Type {
			case "TEXT_MESSAGE_CONTENT":
				text += f.Delta
			case "CUSTOM":
				seen.Late = seen.Late || f.Name == "parley.answered"
			case "RUN_ERROR":
				return false, fmt.Errorf("an error came: %s", f.Raw)
			case "RUN_FINISHED":
				// Clients before 1.0, which a GET without a version is taken for, get no outcome of a turn that was stopped.
				seen.End = map[string]End{"success": Done, "cancelled": Stopped, "": Stopped, "interrupt": Asks}[f.Outcome.Type]
				if seen.End == "" {
					return false, fmt.Errorf("the run ended with %s", f.Raw)
				}
				if seen.End == Asks {
					seen.Prompt = promptOf(f.Outcome.Interrupts[0].ID)
				}
				return true, nil
			}
			return false, nil
		})
	})
	if errors.Is(err, errEnded) {
		err = errors.New("the response ended properly without RUN_FINISHED")
	}
	seen.Texts = []string{text}
	return seen, err
}

// promptOf is the question of an interrupt. That of an approval also has the id of the call.
func promptOf(interrupt string) Prompt {
	p := Prompt{Request: interrupt}
	for i := range interrupt {
		if interrupt[i] == '/' {
			p.Call = interrupt[i+1:]
		}
	}
	return p
}
