package dialecttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/parley-hq/parley/internal/sse"
)

// VertesiaMessage is one compact message of the Vertesia stream.
type VertesiaMessage struct {
	Type    int             `json:"t"`
	Text    string          `json:"m"`
	Line    string          `json:"w"`
	Block   json.RawMessage `json:"i"`
	Final   int             `json:"f"`
	At      float64         `json:"ts"`
	Details struct {
		ActivityID string `json:"activity_id"`
		Status     string `json:"status"`
		RequestID  string `json:"request_id"`
	} `json:"d"`
}

// The types of compact messages.
const (
	VertesiaComplete = 4
	VertesiaError    = 6
	VertesiaAnswer   = 7
	VertesiaQuestion = 8
	VertesiaRequest  = 9
	VertesiaIdle     = 10
	VertesiaChunk    = 12
)

// vertesia is a client of Vertesia's API. It resumes after the timestamp of the last message.
type vertesia struct {
	base
	since  float64
	chunks string // of the answer that is being written
}

func (v *vertesia) Say(ctx context.Context, key, text string) (Seen, error) {
	return v.input(ctx, `{"message":`+Quote(text)+`,"client_message_id":`+Quote(key)+`}`)
}

func (v *vertesia) Join(ctx context.Context, _ string) (Seen, error) { return v.follow(ctx) }

func (v *vertesia) Rest(ctx context.Context) (Seen, error) { return v.follow(ctx) }

func (v *vertesia) Answer(ctx context.Context, p Prompt, key, text string) (Seen, error) {
	meta := `{"request_input_response":{"request_id":` + Quote(p.Request) + `}}`
	if p.Approval {
		text, meta = "allow_once", `{"tool_approval_response":{"decision":"allow_once","approval_key":`+Quote(p.Request)+`}}`
	}
	return v.input(ctx, `{"message":`+Quote(text)+`,"client_message_id":`+Quote(key)+`,"metadata":`+meta+`}`)
}

// input sends a message or an answer, and follows the turn.
func (v *vertesia) input(ctx context.Context, body string) (Seen, error) {
	v.opt.Progress()
	err := v.call(ctx, "POST", "/api/v1/agents/"+v.opt.Session+"/signal/UserInput", body, nil)
	var refused *Refused
	late := errors.As(err, &refused) && refused.Status == http.StatusConflict && strings.Contains(refused.Body, "answered already")
	if err != nil && !late {
		return Seen{}, err
	}
	seen, err := v.follow(ctx)
	seen.Late = late
	return seen, err
}

func (v *vertesia) Stop(ctx context.Context, _ string) error {
	return (&base{opt: v.opt, http: v.http}).call(ctx, "POST", "/api/v1/agents/"+v.opt.Session+"/signal/Stop", `{"message":"enough"}`, nil)
}

// follow reads the stream until the agent is idle or asks.
func (v *vertesia) follow(ctx context.Context) (seen Seen, err error) {
	text := ""
	err = v.again(ctx, func(url string) error {
		q := request{method: "GET", path: fmt.Sprintf("/api/v1/agents/%s/stream?since=%.3f", v.opt.Session, v.since)}
		err := v.stream(ctx, url, q, nil, func(f sse.Frame) (bool, error) {
			var m VertesiaMessage
			if err := json.Unmarshal(f.Data, &m); err != nil {
				return false, fmt.Errorf("%w: %s", err, f.Data)
			}
			if m.At <= v.since {
				return false, fmt.Errorf("a message of %.3f came after %.3f", m.At, v.since)
			}
			v.since = m.At
			switch m.Type {
			case VertesiaChunk:
				v.chunks += m.Text
			case VertesiaAnswer:
				if !strings.HasPrefix(m.Text, v.chunks) {
					return false, fmt.Errorf("the chunks are not the beginning of the answer: %s", Difference(v.chunks, m.Text))
				}
				text, v.chunks = text+m.Text, ""
			case VertesiaError:
				return false, fmt.Errorf("an error came: %s", f.Data)
			case VertesiaRequest:
				seen.End, seen.Prompt = Asks, Prompt{Request: m.Details.RequestID}
			case VertesiaIdle, VertesiaComplete:
				seen.End = Done
			}
			return seen.End != "", nil
		})
		if errors.Is(err, errEnded) {
			return broken{err} // the protocol has no end of a stream
		}
		return err
	})
	seen.Texts = []string{text}
	return seen, err
}
