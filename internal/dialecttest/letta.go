package dialecttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/sse"
)

// LettaFrame is a frame of a run.
type LettaFrame struct {
	Type    string `json:"message_type"`
	Run     string `json:"run_id"`
	At      int64  `json:"seq_id"`
	Content string `json:"content"`
	Stop    string `json:"stop_reason"`
	Error   string `json:"error_type"`
	Message string `json:"message"`
	Call    struct {
		ID string `json:"tool_call_id"`
	} `json:"tool_call"`
}

// letta is a client of Letta's API with background runs. It resumes after the last seq_id.
type letta struct{ base }

func (l *letta) Say(ctx context.Context, key, text string) (Seen, error) {
	return l.follow(ctx, "", LettaMessage(text, key))
}

func (l *letta) Answer(ctx context.Context, p Prompt, key, text string) (Seen, error) {
	if !p.Approval {
		return l.Say(ctx, key, text)
	}
	return l.follow(ctx, "", lettaBody(fmt.Sprintf(`{"type":"approval","otid":%q,"approvals":[{"type":"approval","tool_call_id":%q,"approve":true}]}`, key, p.Call)))
}

// Join follows the run of a turn from its start.
func (l *letta) Join(ctx context.Context, turn string) (Seen, error) {
	id, ok := chat.ParseID(chat.TurnPrefix, turn)
	if !ok {
		return Seen{}, fmt.Errorf("the id of the turn is %q", turn)
	}
	return l.follow(ctx, "run-"+id.UUID(), "")
}

// Stop stops the running turn. A turn that has ended meanwhile cannot be cancelled, which is no error.
func (l *letta) Stop(ctx context.Context, _ string) error {
	err := (&base{opt: l.opt, http: l.http}).call(ctx, "POST", "/v1/conversations/"+l.opt.Session+"/cancel", `{}`, nil)
	if refused := (*Refused)(nil); errors.As(err, &refused) && refused.Status == http.StatusConflict && strings.Contains(refused.Body, "No active runs") {
		return nil
	}
	return err
}

// LettaMessage is the body of a request that sends a message. With the otid every repetition is the same message.
func LettaMessage(text, otid string) string {
	return lettaBody(`{"role":"user","content":` + Quote(text) + `,"otid":` + Quote(otid) + `}`)
}

func lettaBody(message string) string {
	return `{"messages":[` + message + `],"streaming":true,"stream_tokens":true,"background":true}`
}

// follow sends the body, if there is one, and reads the run until it ends.
func (l *letta) follow(ctx context.Context, run, body string) (seen Seen, err error) {
	l.opt.Progress()
	text, stop, at := "", "", int64(0)
	err = l.again(ctx, func(url string) error {
		q := request{method: "POST", path: "/v1/conversations/" + l.opt.Session + "/messages", body: body}
		if run != "" {
			q.path, q.body = "/v1/runs/"+run+"/stream", fmt.Sprintf(`{"starting_after":%d}`, at)
		}
		return l.stream(ctx, url, q, nil, func(raw sse.Frame) (bool, error) {
			if string(raw.Data) == "[DONE]" {
				if stop == "" {
					return false, errors.New("[DONE] came without a stop_reason")
				}
				return true, nil
			}
			var f LettaFrame
			if err := json.Unmarshal(raw.Data, &f); err != nil {
				return false, fmt.Errorf("%w: %s", err, raw.Data)
			}
			if f.Error == "stream_incomplete" { // the server shuts down
				return false, broken{fmt.Errorf("%s", raw.Data)}
			}
			if f.At > 0 && f.At <= at && f.Type != "ping" {
				return false, fmt.Errorf("the frame %s came after %d", raw.Data, at)
			}
			at = max(at, f.At)
			if f.Run != "" {
				run = f.Run
			}
			switch f.Type {
			case "assistant_message":
				text += f.Content
			case "approval_request_message":
				seen.Prompt.Call = f.Call.ID
			case "stop_reason":
				stop = f.Stop
			case "error_message":
				return false, fmt.Errorf("an error came: %s", raw.Data)
			}
			return false, nil
		})
	})
	var refused *Refused
	if errors.As(err, &refused) && refused.Status == http.StatusBadRequest && strings.Contains(refused.Body, "answered") {
		return Seen{Late: true}, nil
	}
	seen.Texts, seen.End = []string{text}, map[string]End{"end_turn": Done, "cancelled": Stopped, "requires_approval": Asks}[stop]
	if err == nil && seen.End == "" {
		err = fmt.Errorf("the run ended as %q", stop)
	}
	return seen, err
}
