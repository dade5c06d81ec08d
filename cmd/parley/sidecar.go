package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/sidecar"
)

// SidecarCmd runs next to an agent process. It reads the environment variables of x1's own sidecar, so that it can replace
// it.
type SidecarCmd struct {
	Session string `arg:"" optional:"" help:"The session to attach the agent to." env:"SESSION_ID"`

	URL   string `help:"Address of the server, which issues the credential for NATS." env:"PARLEY_URL" default:"${url}" placeholder:"URL"`
	Token string `help:"Token for the server; it needs the scope agent." env:"PARLEY_TOKEN" placeholder:"TOKEN" secret:""`

	NATS     string `help:"Connect to this NATS directly instead of asking the server for a credential." name:"nats" env:"NATS_URL" placeholder:"URL"`
	User     string `help:"User for --nats." default:"sidecar" env:"NATS_USER"`
	Password string `help:"Password for --nats; with tokens, that of an administrator." env:"NATS_PASSWORD" placeholder:"TOKEN" secret:""`

	Stream  string        `help:"Address of the agent for /stream and /health." default:"http://127.0.0.1:3100" env:"AGENT_STREAM_URL" placeholder:"URL"`
	Channel string        `help:"Address of the agent for /inject and /keepalive." default:"http://127.0.0.1:8788" env:"CHANNEL_URL" placeholder:"URL"`
	Listen  string        `help:"Address on which the sidecar listens for the agent. Everyone who can reach it can act as the agent." default:"127.0.0.1:9090" env:"SIDECAR_LISTEN" placeholder:"ADDR"`
	Wait    time.Duration `help:"How long the sidecar waits for an agent that is not reachable before it ends." default:"60s" name:"agent-wait" env:"SIDECAR_AGENT_WAIT"`
	Replay  int           `help:"How many events the agent repeats to a new reader of its stream." default:"1000" env:"SIDECAR_REPLAY"`

	ProviderTimeout time.Duration `help:"How long a provider may take." default:"10s" name:"provider-timeout" env:"SIDECAR_PROVIDER_TIMEOUT"`
	Collections     string        `help:"Collections of graph and vector that the agent may use, as JSON; all when it is not given." env:"AGENT_COLLECTIONS_JSON" placeholder:"JSON"`

	LogLevel string `help:"debug, info, warn or error." enum:"debug,info,warn,error" default:"info" env:"PARLEY_LOG_LEVEL"`
}

// Run attaches the agent until ctx or the session ends.
func (c *SidecarCmd) Run(ctx context.Context, std *stdio) error {
	if c.Session == "" {
		return usageError("the session is missing: name it, or set SESSION_ID")
	}
	level := slog.LevelInfo
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return err
	}
	collections, err := sidecar.ParseCollections(c.Collections)
	if err != nil {
		return err
	}
	opt := sidecar.Options{
		Session: chat.SessionID(c.Session), Server: c.URL, Token: c.Token, NATS: c.NATS,
		Stream: c.Stream, Channel: c.Channel, Listen: c.Listen, Wait: c.Wait, Replay: c.Replay,
		Provider: c.ProviderTimeout, Collections: collections,
		Listening: func(addr string) {
			fmt.Fprintf(std.out, "The sidecar of session %s is ready; its agent reaches it at http://%s\n", c.Session, addr)
		},
		Logger: slog.New(slog.NewTextHandler(std.err, &slog.HandlerOptions{Level: level})),
	}
	if c.NATS != "" {
		opt.User, opt.Secret = c.User, c.Password
	}
	s, err := sidecar.New(opt)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
