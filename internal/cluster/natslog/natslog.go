package natslog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sleep"
)

// Options of a log. Values that are 0 have the value in brackets.
type Options struct {
	Cluster    string // id of the cluster: letters, digits and hyphens
	Partitions int    // number of streams
	Replicas   int    // servers that store a stream [3]
	External   bool   // the servers are not the nodes
	MaxBytes   int64  // of each stream [4 GiB]; a full one refuses frames until it is trimmed

	Logger *slog.Logger // nil means none
}

// Log is a cluster.Log.
type Log struct {
	opt  Options
	log  *slog.Logger
	conn *nats.Conn
	js   jetstream.JetStream

	persist time.Duration // how long the leader must say that a frame is missing, or that the log is shorter
	pending int           // republished messages that wait for a reader

	mu      sync.Mutex
	readers map[*reader]bool
}

const (
	attempt = 2 * time.Second        // limit of one request that is repeated
	backoff = 100 * time.Millisecond // between two of them

	codeNoCluster = 10074 // of JetStream: more than one replica on a single server
)

// Open returns the log. It creates streams that do not exist, and repeats that until ctx ends: three servers that start at
// the same time need some seconds. It fails if a stream has other settings. The caller closes the connection after the last
// use of the log.
func Open(ctx context.Context, conn *nats.Conn, opt Options) (*Log, error) {
	if opt.Replicas == 0 {
		opt.Replicas = 3
	}
	if opt.MaxBytes == 0 {
		opt.MaxBytes = 4 << 30
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Cluster == "" || strings.Trim(opt.Cluster, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" {
		return nil, fmt.Errorf("%q is not an id of a cluster: letters, digits and hyphens", opt.Cluster)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	l := &Log{opt: opt, log: opt.Logger.With("part", "log"), conn: conn, js: js, persist: 30 * time.Second, pending: 16 << 10, readers: map[*reader]bool{}}
	for p := range opt.Partitions {
		if err := l.create(ctx, p); err != nil {
			return nil, err
		}
	}
	if need := int64(minRecord + cluster.MaxOverhead); conn.MaxPayload() < need {
		return nil, fmt.Errorf("this NATS server takes messages of at most %d bytes; set its max_payload to %d or more", conn.MaxPayload(), need)
	}
	return l, nil
}

// minRecord is the largest record that every server must take: the largest event, with the record of its session.
const minRecord = 960 << 10

// MaxRecord implements cluster.Limited.
func (l *Log) MaxRecord() int {
	return min(cluster.MaxRecord, int(l.conn.MaxPayload())-cluster.MaxOverhead)
}

// StreamName returns the name of a partition's stream in a cluster.
func StreamName(cluster string, part int) string { return fmt.Sprintf("PARLEY_%s_%d", cluster, part) }

// Stream returns the name of a partition's stream.
func (l *Log) Stream(part int) string  { return StreamName(l.opt.Cluster, part) }
func (l *Log) subject(part int) string { return fmt.Sprintf("parley.log.%s.%d", l.opt.Cluster, part) }
func (l *Log) live(part int) string    { return fmt.Sprintf("parley.tail.%s.%d", l.opt.Cluster, part) }

func (l *Log) config(part int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: l.Stream(part), Subjects: []string{l.subject(part)},
		Storage: jetstream.FileStorage, Replicas: l.opt.Replicas, Retention: jetstream.LimitsPolicy,
		MaxBytes: l.opt.MaxBytes, Discard: jetstream.DiscardNew, DenyDelete: true,
		RePublish: &jetstream.RePublish{Source: l.subject(part), Destination: l.live(part)},
	}
}

// create creates the stream of a partition or checks the one that exists.
func (l *Log) create(ctx context.Context, part int) error {
	want := l.config(part)
	for {
		once, cancel := context.WithTimeout(ctx, 2*attempt)
		info, err := l.info(once, part)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			_, err = l.js.CreateStream(once, want)
		}
		cancel()
		failed, refused := errors.AsType[*jetstream.APIError](err)
		switch {
		case err == nil && info == nil:
			return nil
		case err == nil:
			return differ(info.Config, want)
		case refused && failed.ErrorCode == codeNoCluster:
			return fmt.Errorf("stream %s is to be stored by %d servers, and this NATS server is not part of a cluster", want.Name, want.Replicas)
		case ctx.Err() != nil:
			return fmt.Errorf("create stream %s: %w", want.Name, err)
		}
		l.log.Debug("the stream cannot be created yet; trying again", "stream", want.Name, "err", err)
		if sleep.For(ctx, 5*backoff) != nil {
			return fmt.Errorf("create stream %s: %w", want.Name, err)
		}
	}
}

// differ reports the settings of a stream that are not as they must be.
func differ(have, want jetstream.StreamConfig) error {
	var errs []error
	check := func(name string, have, want any) {
		if have != want {
			errs = append(errs, fmt.Errorf("its %s is %v and must be %v", name, have, want))
		}
	}
	check("number of replicas", have.Replicas, want.Replicas)
	check("storage", have.Storage, want.Storage)
	check("retention", have.Retention, want.Retention)
	check("discard policy", have.Discard, want.Discard)
	check("list of subjects", strings.Join(have.Subjects, " "), strings.Join(want.Subjects, " "))
	if have.RePublish == nil {
		errs = append(errs, errors.New("it does not republish"))
	} else {
		check("republish subject", have.RePublish.Destination, want.RePublish.Destination)
	}
	if have.AllowDirect {
		errs = append(errs, errors.New("it lets followers answer reads"))
	}
	if have.MaxAge != 0 || have.MaxMsgs > 0 || have.MaxMsgsPerSubject > 0 {
		errs = append(errs, errors.New("it has a limit of age or number"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stream %s cannot be used: %w", want.Name, err)
	}
	return nil
}

// Append implements cluster.Log. Without a deadline it waits 5 s.
func (l *Log) Append(ctx context.Context, part int, frame []byte) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
	}
	m, err := l.conn.RequestWithContext(ctx, l.subject(part), frame)
	if err != nil {
		return fmt.Errorf("append to %s: %w", l.Stream(part), err)
	}
	var ack struct {
		Stream string        `json:"stream"`
		Seq    uint64        `json:"seq"`
		Error  *jsErrorReply `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &ack); {
	case err != nil:
		return fmt.Errorf("append to %s: %w", l.Stream(part), err)
	case ack.Error != nil:
		return fmt.Errorf("append to %s: %s (%d)", l.Stream(part), ack.Error.Description, ack.Error.Code)
	case ack.Stream != l.Stream(part) || ack.Seq == 0:
		return fmt.Errorf("append to %s: unexpected answer %q", l.Stream(part), m.Data)
	}
	l.acknowledged(part, cluster.Pos(ack.Seq))
	return nil
}

type jsErrorReply struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

// Trim implements cluster.Log.
func (l *Log) Trim(ctx context.Context, part int, upTo cluster.Pos) error {
	s, err := l.js.Stream(ctx, l.Stream(part))
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSequence(uint64(upTo)+1))
	}
	if err != nil {
		return fmt.Errorf("trim %s: %w", l.Stream(part), err)
	}
	return nil
}

// Renew implements cluster.Renewable.
func (l *Log) Renew(ctx context.Context, part int, after cluster.Pos) error {
	want := l.config(part)
	want.FirstSeq = uint64(after) + 1
	for {
		once, cancel := context.WithTimeout(ctx, 2*attempt)
		err := l.js.DeleteStream(once, want.Name)
		if err == nil || errors.Is(err, jetstream.ErrStreamNotFound) {
			_, err = l.js.CreateStream(once, want)
		}
		cancel()
		if err == nil {
			return nil
		}
		l.log.Debug("the stream cannot be replaced yet; trying again", "stream", want.Name, "err", err)
		if sleep.For(ctx, 5*backoff) != nil {
			return fmt.Errorf("replace stream %s: %w", want.Name, err)
		}
	}
}

// Ends implements cluster.Log. The leader of the stream answers. A stream that does not exist is empty.
func (l *Log) Ends(ctx context.Context, part int) (first, last cluster.Pos, err error) {
	info, err := l.info(ctx, part)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 1, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	return cluster.Pos(max(1, info.State.FirstSeq)), cluster.Pos(info.State.LastSeq), nil
}

// Size implements cluster.Sized.
func (l *Log) Size(ctx context.Context, part int) (int64, error) {
	info, err := l.info(ctx, part)
	if err != nil {
		return 0, err
	}
	return int64(info.State.Bytes), nil
}

// Status says which servers store a partition.
type Status struct {
	Leader    string   // "" if there is none
	Followers []string // that are current
	Bytes     uint64
	Missing   int // frames that the leader has lost; 0 unless its files are damaged
}

// Status returns the state of a partition's stream.
func (l *Log) Status(ctx context.Context, part int) (s Status, err error) {
	info, err := l.info(ctx, part)
	if err != nil {
		return s, err
	}
	s.Bytes, s.Missing = info.State.Bytes, info.State.NumDeleted
	if c := info.Cluster; c != nil {
		s.Leader = c.Leader
		for _, r := range c.Replicas {
			if r.Current && !r.Offline {
				s.Followers = append(s.Followers, r.Name)
			}
		}
	}
	return s, nil
}

// Servers implements cluster.Stored.
func (l *Log) Servers(ctx context.Context, part int) (names []string, err error) {
	if l.opt.External {
		return nil, nil
	}
	info, err := l.info(ctx, part)
	if err != nil || info.Cluster == nil {
		return nil, err
	}
	if info.Cluster.Leader != "" {
		names = append(names, info.Cluster.Leader)
	}
	for _, r := range info.Cluster.Replicas {
		names = append(names, r.Name)
	}
	return names, nil
}

// StepDown makes the leader of a partition's stream give up its role, in favour of a server if it is named.
func (l *Log) StepDown(ctx context.Context, part int, prefer string) error {
	var request []byte
	if prefer != "" {
		var err error
		if request, err = json.Marshal(map[string]any{"placement": map[string]string{"preferred": prefer}}); err != nil {
			return err
		}
	}
	m, err := l.conn.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+l.Stream(part), request)
	if err != nil {
		return fmt.Errorf("step down the leader of %s: %w", l.Stream(part), err)
	}
	var reply struct {
		Error *jsErrorReply `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		return fmt.Errorf("step down the leader of %s: %w", l.Stream(part), err)
	}
	if reply.Error != nil {
		return fmt.Errorf("step down the leader of %s: %s (%d)", l.Stream(part), reply.Error.Description, reply.Error.Code)
	}
	return nil
}

// Yield makes other servers the leaders of all streams that a server leads. Without it, writes wait for an election when the
// server ends.
func (l *Log) Yield(ctx context.Context, server string) error {
	var errs []error
	for part := range l.opt.Partitions {
		s, err := l.Status(ctx, part)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if s.Leader != server {
			continue
		}
		if len(s.Followers) == 0 {
			errs = append(errs, fmt.Errorf("no other server can lead %s", l.Stream(part)))
			continue
		}
		errs = append(errs, l.StepDown(ctx, part, s.Followers[0]))
	}
	return errors.Join(errs...)
}

// info asks the leader of a partition's stream. No server answers while the leader changes, so the request is repeated until
// ctx ends, or for 5 s if it has no deadline.
func (l *Log) info(ctx context.Context, part int) (*jetstream.StreamInfo, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
	}
	for {
		once, cancel := context.WithTimeout(ctx, attempt)
		s, err := l.js.Stream(once, l.Stream(part))
		cancel()
		if err == nil {
			return s.CachedInfo(), nil
		}
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return nil, fmt.Errorf("state of %s: %w", l.Stream(part), err)
		}
	}
}

// sequence returns the position of a republished message.
func sequence(m *nats.Msg) (cluster.Pos, bool) {
	n, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	return cluster.Pos(n), err == nil && n > 0
}
