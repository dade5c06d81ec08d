package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/audit"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/web"
)

// ServeCmd starts the server.
type ServeCmd struct {
	Addr string `help:"Address to listen on." default:"127.0.0.1:8000" env:"PARLEY_ADDR"`
	Data string `help:"Data folder." default:"./parley-data" env:"PARLEY_DATA" type:"path"`
	Sync string `help:"When an append counts as stored: always (survives a kill and power loss), interval (a kill or a power cut may lose the last tenth of a second), never (a kill or a power cut may lose whatever was not written yet)." enum:"always,interval,never" default:"always" env:"PARLEY_SYNC"`

	Config string        `help:"Configuration file with the agents. Without it, parley.yaml in this folder is read if it exists and only you can write it. SIGHUP reads the file again." env:"PARLEY_CONFIG" type:"path" placeholder:"FILE" group:"Agents"`
	Agent  string        `help:"Agent of sessions that name none; by default the first of the configuration, or demo." env:"PARLEY_AGENT" group:"Agents"`
	Lease  time.Duration `help:"How long a turn waits for its worker to reconnect; after 10 s another worker may take the turn." default:"60s" env:"PARLEY_LEASE" group:"Agents"`

	Token     []string `help:"Token with all scopes; may be given several times. When one is set, every request needs a token." name:"token" env:"PARLEY_TOKEN" placeholder:"TOKEN" group:"Access" secret:""`
	TokenFile string   `help:"File of tokens, one per line: token scope[,scope] actor [workspace] [agents=name,name]. SIGHUP reads it again." env:"PARLEY_TOKEN_FILE" type:"path" group:"Access"`
	JWTSecret string   `help:"Secret of JWTs signed with HS256." name:"jwt-secret" env:"PARLEY_JWT_SECRET" group:"Access" secret:""`
	JWTKey    string   `help:"PEM file with the public key of JWTs." name:"jwt-key" env:"PARLEY_JWT_KEY" type:"path" group:"Access"`
	JWKS      string   `help:"Address of the key set of JWTs." name:"jwks" env:"PARLEY_JWKS" group:"Access"`
	JWTIssuer string   `help:"Issuer that JWTs must name." name:"jwt-issuer" env:"PARLEY_JWT_ISSUER" group:"Access"`
	JWTAud    string   `help:"Audience that JWTs must name." name:"jwt-audience" env:"PARLEY_JWT_AUDIENCE" group:"Access"`

	TLSCert      string   `help:"TLS certificate file." name:"tls-cert" env:"PARLEY_TLS_CERT" type:"path" group:"Access"`
	TLSKey       string   `help:"TLS key file." name:"tls-key" env:"PARLEY_TLS_KEY" type:"path" group:"Access"`
	TrustedProxy bool     `help:"A proxy in front of the server terminates TLS." env:"PARLEY_TRUSTED_PROXY" group:"Access"`
	Host         []string `help:"Name by which clients reach the server, in addition to names of this machine such as localhost. Requests for other names are refused." env:"PARLEY_HOST" group:"Access"`
	AllowOrigin  []string `help:"Origin of web pages that may use the server." env:"PARLEY_ALLOW_ORIGIN" group:"Access"`

	NemoSchema string            `help:"Message schema for NeMo WebSocket clients that do not name one: nemo (as the toolkit's server), documented, agentiq, aiq (the AI-Q UI)." name:"nemo-schema" enum:"nemo,documented,agentiq,aiq" default:"nemo" env:"PARLEY_NEMO_SCHEMA" group:"Dialects"`
	LettaModel map[string]string `help:"Agent for a model that Letta clients name, such as openai/gpt-4.1=demo; *=AGENT stands for all others. Several are separated by a semicolon." name:"letta-model" env:"PARLEY_LETTA_MODEL" placeholder:"HANDLE=AGENT" group:"Dialects"`

	NATS          string        `help:"Address of the embedded NATS server for x1, 127.0.0.1:4222 by default; off disables it; nats://HOST:PORT connects to an external server." name:"nats" default:"127.0.0.1:4222" env:"PARLEY_NATS" placeholder:"ADDR" group:"Dialects"`
	NATSWebSocket string        `help:"Address of the embedded NATS server for WebSocket clients; empty disables it." name:"nats-websocket" env:"PARLEY_NATS_WEBSOCKET" placeholder:"ADDR" group:"Dialects"`
	NATSKeep      time.Duration `help:"How long JetStream keeps the copies of events on x1's archive subjects." name:"nats-keep" default:"24h" env:"PARLEY_NATS_KEEP" group:"Dialects"`
	Provider      []string      `help:"Providers that the server itself offers to x1 agents: files, vector, graph; none disables them." enum:"files,vector,graph,none" default:"files,vector,graph" env:"PARLEY_PROVIDER" group:"Dialects"`
	PreviewCmd    string        `help:"Program that answers x1.provider.preview.provision: it reads the request as JSON from standard input and prints the reply." name:"preview-command" env:"PARLEY_PREVIEW_COMMAND" placeholder:"PROGRAM" group:"Dialects"`
	ImageCmd      string        `help:"Program that answers x1.image.build in the same way." name:"image-command" env:"PARLEY_IMAGE_COMMAND" placeholder:"PROGRAM" group:"Dialects"`
	Summary       string        `help:"Summary in a session's record: off (none), plain (counts and quotes, without a model)." enum:"off,plain" default:"off" env:"PARLEY_SUMMARY" group:"Dialects"`

	VertesiaRetention time.Duration `help:"Erase runs of the Vertesia dialect after this time without an event, such as 2160h (90 days); 0 keeps them." name:"vertesia-retention" default:"0" env:"PARLEY_VERTESIA_RETENTION" group:"Dialects"`

	MaxBody       int64   `help:"Maximum size of a request body in bytes." default:"8388608" env:"PARLEY_MAX_BODY" group:"Limits"`
	MaxArtifact   int64   `help:"Maximum size of an artifact in bytes." default:"1073741824" env:"PARLEY_MAX_ARTIFACT" group:"Limits"`
	MinFree       int64   `help:"Minimum free space on the disk in bytes; below it appends are refused; --min-free=-1 switches it off." default:"1073741824" env:"PARLEY_MIN_FREE" group:"Limits"`
	MinFreePct    float64 `help:"Minimum free space on the disk in percent; --min-free-percent=-1 switches it off." name:"min-free-percent" default:"5" env:"PARLEY_MIN_FREE_PERCENT" group:"Limits"`
	MaxSessions   int     `help:"Sessions that one owner may have in a workspace, administrators excepted; --max-sessions=-1 means no limit." default:"100000" env:"PARLEY_MAX_SESSIONS" group:"Limits"`
	MaxOpen       int64   `help:"Maximum size in bytes of the open blocks of one session; --max-open=-1 means no limit." name:"max-open" default:"16777216" env:"PARLEY_MAX_OPEN" group:"Limits"`
	MaxOpenOwn    int64   `help:"Maximum size in bytes of the open blocks in all sessions of one owner in a workspace." name:"max-open-owner" default:"268435456" env:"PARLEY_MAX_OPEN_OWNER" group:"Limits"`
	MaxOpenWork   int64   `help:"Maximum size in bytes of the open blocks in all sessions of a workspace." name:"max-open-workspace" default:"1073741824" env:"PARLEY_MAX_OPEN_WORKSPACE" group:"Limits"`
	MaxStoredOwn  int64   `help:"Maximum size in bytes of events and artifacts in all sessions of one owner in a workspace, administrators excepted; 0 means a quarter of the disk; --max-stored-owner=-1 means no limit." name:"max-stored-owner" default:"0" env:"PARLEY_MAX_STORED_OWNER" group:"Limits"`
	MaxStoredWork int64   `help:"Maximum size in bytes of events and artifacts in all sessions of a workspace; 0 means half of the disk." name:"max-stored-workspace" default:"0" env:"PARLEY_MAX_STORED_WORKSPACE" group:"Limits"`
	DiskShares    int64   `help:"While less than twice the disk's reserve is free, each actor may write one part of the reserve in an hour, administrators excepted; this is the number of parts. --disk-shares=-1 means no limit." name:"disk-shares" default:"64" env:"PARLEY_DISK_SHARES" group:"Limits"`
	Rate          float64 `help:"Requests a second that one actor may make, by HTTP, WebSocket or NATS; 0 means 2000 where there are tokens; --rate=-1 means no limit." default:"0" env:"PARLEY_RATE" group:"Limits"`

	ClusterListen     string        `help:"Address at which the other nodes of a cluster reach this one. With it the server is one of several that keep the same sessions." name:"cluster-listen" env:"PARLEY_CLUSTER_LISTEN" placeholder:"ADDR" group:"Cluster"`
	ClusterPeers      []string      `help:"Addresses of all 3 or 5 nodes, the same list on each of them." name:"cluster-peers" env:"PARLEY_CLUSTER_PEERS" placeholder:"ADDR" group:"Cluster"`
	ClusterSecretFile string        `help:"File with the secret that all nodes share; needed beyond this machine." name:"cluster-secret-file" env:"PARLEY_CLUSTER_SECRET_FILE" type:"path" placeholder:"FILE" group:"Cluster"`
	ClusterNATS       string        `help:"URL of a NATS cluster with JetStream that the nodes use instead of their embedded servers. The addresses of --cluster-peers then only name the nodes." name:"cluster-nats" env:"PARLEY_CLUSTER_NATS" placeholder:"URL" group:"Cluster"`
	ClusterNATSCreds  string        `help:"Credentials file for --cluster-nats." name:"cluster-nats-creds" env:"PARLEY_CLUSTER_NATS_CREDS" type:"path" placeholder:"FILE" group:"Cluster"`
	ClusterNATSCA     string        `help:"File with the certificates that --cluster-nats is checked with; it makes the connection use TLS." name:"cluster-nats-ca" env:"PARLEY_CLUSTER_NATS_CA" type:"path" placeholder:"FILE" group:"Cluster"`
	ClusterLogAge     time.Duration `help:"How long the nodes keep the log of changes. A node that was away for longer copies the store of another node when it comes back." name:"cluster-log-age" default:"1h" env:"PARLEY_CLUSTER_LOG_AGE" group:"Cluster"`
	ClusterLogBytes   int64         `help:"Size in bytes from which the log of a partition is trimmed early; at twice this size the partition accepts no writes." name:"cluster-log-bytes" default:"2147483648" env:"PARLEY_CLUSTER_LOG_BYTES" group:"Cluster"`

	Artifacts            string `help:"Bucket of an S3-compatible service in which the nodes of a cluster store the bytes of artifacts, instead of on their own disks. The credentials are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or a file." name:"artifacts" env:"PARLEY_ARTIFACTS" placeholder:"s3://BUCKET[/PREFIX]" group:"Cluster"`
	ArtifactsEndpoint    string `help:"Address of the S3-compatible service; by default that of AWS in the region." name:"artifacts-endpoint" env:"PARLEY_ARTIFACTS_ENDPOINT" placeholder:"URL" group:"Cluster"`
	ArtifactsRegion      string `help:"Region of the bucket; by default us-east-1." name:"artifacts-region" default:"us-east-1" env:"PARLEY_ARTIFACTS_REGION,AWS_REGION" placeholder:"REGION" group:"Cluster"`
	ArtifactsCredentials string `help:"File with the credentials of the bucket, as the AWS command line has it; it is read again when it changes. AWS_PROFILE names the profile." name:"artifacts-credentials" env:"PARLEY_ARTIFACTS_CREDENTIALS,AWS_SHARED_CREDENTIALS_FILE" type:"path" placeholder:"FILE" group:"Cluster"`

	Grace          time.Duration `help:"How long running turns may continue when the server shuts down." default:"10s" env:"PARLEY_GRACE" group:"Operations"`
	LogLevel       string        `help:"debug, info, warn or error." enum:"debug,info,warn,error" default:"info" env:"PARLEY_LOG_LEVEL" group:"Operations"`
	LogFormat      string        `help:"text or json." enum:"text,json" default:"text" env:"PARLEY_LOG_FORMAT" group:"Operations"`
	Pprof          bool          `help:"Serve profiles at /debug/pprof/." env:"PARLEY_PPROF" group:"Operations"`
	OTLP           string        `help:"Address of an OpenTelemetry collector (OTLP over HTTP); every turn becomes a span." name:"otlp" env:"PARLEY_OTLP,OTEL_EXPORTER_OTLP_ENDPOINT" placeholder:"URL" group:"Operations"`
	AuditRetention time.Duration `help:"Erase entries of the audit log after this time, a month at a time; 0 keeps them." default:"2160h" env:"PARLEY_AUDIT_RETENTION" group:"Operations"`
	TraceURL       string        `help:"Address of a trace in your tracing system; {id} stands for the trace's id. The console links to it." name:"trace-url" env:"PARLEY_TRACE_URL" placeholder:"https://traces.example.com/{id}" group:"Operations"`

	trail *audit.Log
}

// Run serves until ctx ends.
func (c *ServeCmd) Run(ctx context.Context, std *stdio) error {
	// The reader of the output may close its pipe; that must not end the server.
	signal.Ignore(syscall.SIGPIPE)
	// SIGHUP reloads; it never ends the server, not even during the start.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	level := slog.LevelInfo
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return err
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: shortErrors}
	var handler slog.Handler = slog.NewTextHandler(std.err, options)
	if c.LogFormat == "json" {
		handler = slog.NewJSONHandler(std.err, options)
	}
	log := slog.New(handler)
	a, err := c.auth(log)
	if err != nil {
		return err
	}
	if err := auth.RefuseOpenBeyondLoopback(c.Addr, a, c.TLSCert != "", c.TrustedProxy); err != nil {
		return err
	}
	if err := c.checkNATS(a); err != nil {
		return err
	}
	if err := errors.Join(c.checkCluster(), c.checkArtifacts()); err != nil {
		return err
	}
	if err := web.CheckTrace(c.TraceURL); err != nil {
		return fmt.Errorf("--trace-url: %w", err)
	}
	switch c.syncMode() {
	case journal.SyncInterval:
		log.Warn("--sync=interval: a kill or a power cut may lose what was acknowledged in the last tenth of a second")
	case journal.SyncNever:
		log.Warn("--sync=never: a kill or a power cut may lose what was acknowledged and is not written yet")
	}
	if c.clustered() {
		return c.runNode(ctx, a, log, hangup, std.out)
	}
	if err := c.checkSingle(); err != nil {
		return err
	}
	p, err := open(c, a, log, nil)
	if err != nil {
		return err
	}
	p.signals = hangup
	return p.run(ctx, std.out)
}

// shortErrors logs the message of an error only, because some errors format their stack too.
func shortErrors(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}

// auth creates the authentication from the flags.
func (c *ServeCmd) auth(log *slog.Logger) (*auth.Auth, error) {
	tokens, err := c.tokens()
	if err != nil {
		return nil, err
	}
	return auth.New(auth.Options{
		Tokens: tokens, Logger: log, Audit: c.auditLog().Report,
		JWT:   auth.JWT{Secret: auth.Secret(c.JWTSecret), KeyFile: c.JWTKey, JWKS: c.JWKS, Issuer: c.JWTIssuer, Audience: c.JWTAud},
		Hosts: c.Host, AllowOrigins: c.AllowOrigin, TrustedProxy: c.TrustedProxy, Rate: c.Rate,
	})
}

// tokens returns the tokens of the command line and of the token file.
func (c *ServeCmd) tokens() (all []auth.Token, err error) {
	for _, t := range c.Token {
		all = append(all, auth.Token{
			Token: auth.Secret(t), Actor: chat.Actor{Kind: chat.User, ID: "admin"},
			Scopes:        []chat.Scope{chat.ScopeUser, chat.ScopeAgent, chat.ScopeAdmin},
			AllWorkspaces: true, Agents: []string{chat.AnyAgent},
		})
	}
	if c.TokenFile != "" {
		f, err := os.Open(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("the token file cannot be read: %w", err)
		}
		tokens, err := auth.ReadTokens(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", c.TokenFile, err)
		}
		if len(tokens) == 0 && len(all) == 0 && c.JWTSecret == "" && c.JWTKey == "" && c.JWKS == "" {
			return nil, fmt.Errorf("%s names no token: the server would need no token; add a line, or start it without --token-file", c.TokenFile)
		}
		all = append(all, tokens...)
	}
	return all, nil
}

func (c *ServeCmd) syncMode() journal.SyncMode {
	switch c.Sync {
	case "interval":
		return journal.SyncInterval
	case "never":
		return journal.SyncNever
	}
	return journal.SyncAlways
}

// Paths in the data folder.
func storeDir(data string) string    { return filepath.Join(data, "store") }
func artifactDir(data string) string { return filepath.Join(data, "artifacts") }
func cleanFile(data string) string   { return filepath.Join(data, "clean") }
