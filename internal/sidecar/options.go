package sidecar

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Options of a sidecar. Session and either Server or NATS are needed.
type Options struct {
	Session chat.SessionID

	Server string // address of Parley, which issues the credential for NATS
	Token  string // for Server; needs the scope agent
	NATS   string // address of NATS, to connect directly
	User   string // for NATS; "" means none
	Secret string // the password

	Stream  string        // of the agent: where GET /stream and /health are; "" means http://127.0.0.1:3100
	Channel string        // of the agent: where POST /inject and /keepalive are; "" means http://127.0.0.1:8788
	Listen  string        // where the agent reaches the sidecar; "" means 127.0.0.1:9090
	Wait    time.Duration // how long the agent may be unreachable; 0 means 60 s
	Replay  int           // how many events the agent repeats on a new connection; 0 means 1000

	Retry    []time.Duration // pauses between attempts to inject; nil means 1, 2, 10 and 30 s
	Provider time.Duration   // how long a provider may take; 0 means 10 s
	Probe    time.Duration   // how long to wait for the answer of another sidecar; 0 means 2 s

	Collections []Collection // collections of graph and vector that the agent may use; nil means all

	Listening func(addr string) // called when it listens; may be nil
	Logger    *slog.Logger      // nil means none
}

// Collection is a collection of a graph or vector provider that an agent may use.
type Collection struct {
	ID      string `json:"id"`
	Slug    string `json:"slug"`
	Handle  string `json:"backend_handle"` // name used by the provider
	Type    string `json:"provider_type,omitempty"`
	Default bool   `json:"is_default,omitempty"`
}

// ParseCollections reads the list in the form in which x1 hands it to sidecars.
func ParseCollections(text string) ([]Collection, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	list := []Collection{}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, chat.Errorf(chat.Invalid, "the collections are not a JSON array of {id, slug, backend_handle, provider_type, is_default}").Because(err)
	}
	return list, nil
}

func (o Options) withDefaults() Options {
	o.Stream = strings.TrimRight(cmp.Or(o.Stream, "http://127.0.0.1:3100"), "/")
	o.Channel = strings.TrimRight(cmp.Or(o.Channel, "http://127.0.0.1:8788"), "/")
	o.Listen = cmp.Or(o.Listen, "127.0.0.1:9090")
	o.Server = strings.TrimRight(o.Server, "/")
	o.Wait = cmp.Or(o.Wait, time.Minute)
	o.Replay = cmp.Or(o.Replay, 1000)
	o.Provider = cmp.Or(o.Provider, 10*time.Second)
	o.Probe = cmp.Or(o.Probe, 2*time.Second)
	if o.Retry == nil {
		o.Retry = []time.Duration{time.Second, 2 * time.Second, 10 * time.Second, 30 * time.Second}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// newInstance returns a name of this process, for diagnosis.
func newInstance() string {
	host, _ := os.Hostname() // "" if it is unknown
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:8])
}

// Validate reports all that is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	if err := o.Session.Validate(); err != nil {
		errs = append(errs, err)
	}
	if o.Server == "" && o.NATS == "" {
		errs = append(errs, chat.Errorf(chat.Invalid, "give the address of the server, or that of its NATS"))
	}
	for name, s := range map[string]string{"server": o.Server, "agent stream": o.Stream, "agent channel": o.Channel} {
		if s == "" {
			continue
		}
		if u, err := url.Parse(s); err != nil || u.Host == "" || !slices.Contains([]string{"http", "https"}, u.Scheme) {
			errs = append(errs, chat.Errorf(chat.Invalid, "the address of the %s is not of the form http://host:port", name))
		}
	}
	return errors.Join(errs...)
}
