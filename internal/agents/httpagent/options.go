package httpagent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
)

// The protocols.
const (
	OpenAI = "openai-chat"
	NDJSON = "ndjson"
	NeMo   = "nemo"
	AGUI   = "ag-ui"
)

// What happens to a turn after a crash of the server.
const (
	RecoverSafe   = "safe"   // the endpoint is called again, unless a tool was used
	RecoverAlways = "always" // the endpoint is called again
	RecoverNever  = "never"  // the turn ends as interrupted
)

// Options configures an Agent. Protocol and URL are required; package agentconfig checks the values.
type Options struct {
	Protocol string
	URL      string                 // of the endpoint
	Key      func() (string, error) // the bearer token, read for every call; nil or "" means none
	Headers  map[string]string

	Model        string         // openai-chat, nemo: the model's name
	Instructions string         // put before the conversation as a system message
	History      int            // how many messages of the conversation are sent, the newest; 0 means 100, -1 only the last
	Extra        map[string]any // more fields of the request's body
	Socket       bool           // nemo: use the WebSocket
	NoAsk        bool           // ag-ui: do not offer the tool ask_person

	Connect time.Duration // until there is a connection; 0 means 10 s
	Wait    time.Duration // until the answer begins; 0 means 2 min
	Idle    time.Duration // between two bytes of the answer; 0 means 2 min, 10 min for nemo
	Limit   time.Duration // for one call, without the time that people take to answer; 0 means 1 h
	Max     int64         // bytes of one answer; 0 means 16 MiB, 256 MiB for nemo
	Retries int           // further calls while the endpoint refuses them; 0 means 2, -1 none
	Recover string        // "" means RecoverSafe; ndjson: RecoverAlways

	Files  func(ctx context.Context, id chat.SessionID, path string) (data []byte, mediaType string, err error) // reads images for the endpoint; nil means none
	Logger *slog.Logger                                                                                         // nil means none
}

// CheckURL checks the address of an endpoint.
func CheckURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "ws", "wss"}, u.Scheme) {
		return fmt.Errorf("%q is no address such as http://127.0.0.1:8001/chat", s)
	}
	return nil
}

// fill sets the defaults.
func (o *Options) fill() {
	if o.Protocol == NeMo {
		// NeMo sends its steps again for every token, and nothing while a tool runs.
		o.Idle = cmp.Or(o.Idle, 10*time.Minute)
		o.Max = cmp.Or(o.Max, 256<<20)
	}
	o.Connect = cmp.Or(o.Connect, 10*time.Second)
	o.Wait = cmp.Or(o.Wait, 2*time.Minute)
	o.Idle = cmp.Or(o.Idle, 2*time.Minute)
	o.Limit = cmp.Or(o.Limit, time.Hour)
	o.Max = cmp.Or(o.Max, 16<<20)
	o.Retries = max(cmp.Or(o.Retries, 2), 0)
	o.History = max(cmp.Or(o.History, 100), 1)
	if o.Recover == "" {
		if o.Recover = RecoverSafe; o.Protocol == NDJSON {
			o.Recover = RecoverAlways // the request names the attempt
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}
