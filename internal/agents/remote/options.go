package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
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

// Protocols are the names of all protocols.
var Protocols = []string{OpenAI, NDJSON, NeMo, AGUI}

// What happens to a turn after a crash of the server.
const (
	RecoverSafe   = "safe"   // the endpoint is called again, unless a tool was used
	RecoverAlways = "always" // the endpoint is called again
	RecoverNever  = "never"  // the turn ends as interrupted
)

// Options configures an Agent. Protocol and URL are required.
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
	Silence time.Duration // between two bytes of the answer; 0 means 2 min, 10 min for nemo
	Limit   time.Duration // for one call, without the time that people take to answer; 0 means 1 h
	Max     int64         // bytes of one answer; 0 means 16 MiB, 256 MiB for nemo
	Retries int           // further calls while the endpoint refuses them; 0 means 2, -1 none
	Recover string        // "" means RecoverSafe; ndjson: RecoverAlways

	Files  func(ctx context.Context, id chat.SessionID, path string) (data []byte, mediaType string, err error) // reads images for the endpoint; nil means none
	Logger *slog.Logger                                                                                         // nil means none
}

// Validate reports all problems at once.
func (o *Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains(Protocols, o.Protocol) {
		bad("protocol %q is not one of %s", o.Protocol, strings.Join(Protocols, ", "))
	}
	if err := CheckURL(o.URL); err != nil {
		errs = append(errs, err)
	}
	if o.Recover != "" && !slices.Contains([]string{RecoverSafe, RecoverAlways, RecoverNever}, o.Recover) {
		bad("recover %q is not one of safe, always, never", o.Recover)
	}
	if o.Connect < 0 || o.Wait < 0 || o.Silence < 0 || o.Limit < 0 || o.Max < 0 {
		bad("times and sizes cannot be negative")
	}
	if o.Socket && o.Protocol != NeMo {
		bad("only nemo has a WebSocket")
	}
	return errors.Join(errs...)
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
	or := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if o.Protocol == NeMo {
		// NeMo sends its steps again for every token, and nothing while a tool runs.
		or(&o.Silence, 10*time.Minute)
		if o.Max == 0 {
			o.Max = 256 << 20
		}
	}
	or(&o.Connect, 10*time.Second)
	or(&o.Wait, 2*time.Minute)
	or(&o.Silence, 2*time.Minute)
	or(&o.Limit, time.Hour)
	if o.Max == 0 {
		o.Max = 16 << 20
	}
	switch {
	case o.Retries == 0:
		o.Retries = 2
	case o.Retries < 0:
		o.Retries = 0
	}
	switch {
	case o.History == 0:
		o.History = 100
	case o.History < 0:
		o.History = 1
	}
	if o.Recover == "" {
		if o.Recover = RecoverSafe; o.Protocol == NDJSON {
			o.Recover = RecoverAlways // the request names the attempt
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}
