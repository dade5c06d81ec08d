package remote

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Agent answers turns by calling an endpoint.
type Agent struct {
	opt    Options
	url    *url.URL
	client *http.Client

	mu        sync.Mutex
	lastError error // why the last call failed; nil when it did not
}

// New returns an agent.
func New(opt Options) (*Agent, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	opt.fill()
	u, err := url.Parse(opt.URL)
	if err != nil {
		return nil, err
	}
	return &Agent{opt: opt, url: u, client: newClient(&opt)}, nil
}

// Close drops idle connections.
func (a *Agent) Close() { a.client.CloseIdleConnections() }

// Health tells how the last call or probe went.
func (a *Agent) Health() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lastError
}

// note remembers how a call went, in words for people. A bad answer to one turn
// is no illness.
func (a *Agent) setHealth(err error) {
	if e, ok := errors.AsType[*chat.Error](err); ok {
		err = errors.New(e.Msg)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastError = err
}

// Probe looks whether there is a key and the endpoint takes connections.
func (a *Agent) Probe(ctx context.Context) error {
	if err := a.authorize(http.Header{}); err != nil {
		a.setHealth(err)
		return a.Health()
	}
	ctx, cancel := context.WithTimeout(ctx, a.opt.Connect)
	defer cancel()
	host := a.url.Host
	if a.url.Port() == "" {
		port := "80"
		if a.url.Scheme == "https" || a.url.Scheme == "wss" {
			port = "443"
		}
		host = net.JoinHostPort(a.url.Hostname(), port)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err == nil {
		conn.Close()
	} else {
		err = a.problem(nil, err)
	}
	a.setHealth(err)
	return a.Health()
}

// round is one call of the endpoint within a turn. An endpoint that asked
// something is called again with the answers.
type round struct {
	n       int
	turn    *agent.Turn
	s       *output
	before  *record    // of the round before
	answers []answered // to what the round before asked
}

// record is what is kept of a round for the next one. It stands in the log
// together with the questions of the round.
type record struct {
	Round    int               `json:"round"`
	IDs      []string          `json:"ids,omitempty"`      // the endpoint's own names of its questions
	State    json.RawMessage   `json:"state,omitempty"`    // the endpoint's state
	Messages map[string]string `json:"messages,omitempty"` // the endpoint's ids of its messages, by block
	Run      string            `json:"run,omitempty"`      // the endpoint's name of the run
}

// recordType is the type of the event that keeps a record.
const recordType = "remote.round"

func (r *record) body() chat.Body {
	b, _ := json.Marshal(r)
	return chat.Unknown{Name: recordType, Payload: b}
}

func recordOf(e *chat.Event) (*record, bool) {
	if e.Type != recordType {
		return nil, false
	}
	var r record
	return &r, json.Unmarshal(e.Payload, &r) == nil
}

// question is what an endpoint asks at the end of a round.
type question struct {
	id   string // the endpoint's
	body chat.Body
}

// answered is a question and what became of it.
type answered struct {
	id   string
	body chat.Body // a response; nil when there was none
	why  error     // why not

	asked chat.Prompt
}

// speak makes one call and returns what the endpoint wants to know.
type protocol func(ctx context.Context, a *Agent, r *round) ([]question, error)

var protocols = map[string]protocol{OpenAI: openAI, NDJSON: ndjson, NeMo: nemo, AGUI: agUI}

// maxRounds bounds the calls of one turn.
const maxRounds = 100

// Answer calls the endpoint and says what it says.
func (a *Agent) Answer(ctx context.Context, turn *agent.Turn) error {
	r := &round{n: 1, turn: turn}
	if turn.Resumed() {
		done, err := a.restore(ctx, r)
		if done || err != nil {
			return err
		}
	}
	for ; r.n <= maxRounds; r.n++ {
		before := r.s
		if r.s = newOutput(turn, r.n); before != nil {
			r.s.calls, r.s.open = before.calls, before.open
		}
		asked, err := protocols[a.opt.Protocol](ctx, a, r)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if len(asked) == 0 {
			return r.s.finish(ctx)
		}
		events, err := r.ask(ctx, asked)
		if err != nil {
			return err
		}
		if err := r.awaitAnswers(ctx, events); err != nil {
			return err
		}
	}
	return agent.Failf(agent.CodeTooMany, chat.Unavailable, "the agent asked %d times in one turn without coming to an end, so it was stopped; say how to go on", maxRounds)
}

// recall finds out how far earlier attempts came: done means that the answer is
// there, else r is the round to go on with.
func (a *Agent) restore(ctx context.Context, r *round) (done bool, err error) {
	var asked []chat.Event // of the last round that asked: its record and its questions
	used := false
	for _, e := range r.turn.Past() {
		switch b := e.Body.(type) {
		case chat.AgentText:
			done = done || b.Final && !b.Partial
		case chat.AgentToolCall:
			used = true
		case chat.Unknown:
			if rec, ok := recordOf(&e); ok && len(rec.IDs) > 0 {
				asked, used = []chat.Event{e}, false
			}
		case chat.AgentInputRequest, chat.AgentApprovalRequest, chat.AgentPermissionRequest:
			if len(asked) > 0 && strings.HasPrefix(e.ClientID, keepPrefix(&asked[0])) {
				asked = append(asked, e)
			}
		}
	}
	if done {
		return true, nil
	}
	if len(asked) > 1 {
		before, _ := recordOf(&asked[0])
		r.n = before.Round
		if err := r.awaitAnswers(ctx, asked); err != nil {
			return false, err
		}
		r.n++
	}
	if a.opt.Protocol == NeMo && a.opt.Socket && waiting(r.turn) != nil {
		return false, nil // it may be there still
	}
	return false, a.mayRepeat(used)
}

// mayRepeat says whether the endpoint may be called again after a crash.
func (a *Agent) mayRepeat(used bool) error {
	switch {
	case a.opt.Recover == RecoverAlways, a.opt.Recover == RecoverSafe && !used:
		return nil
	case used:
		return errors.Join(agent.Failf(agent.CodeLost, chat.Unavailable,
			"the server was restarted while the agent was using tools, and what they did is not known; look, then ask again"), agent.ErrInterrupted)
	}
	return errors.Join(agent.Failf(agent.CodeLost, chat.Unavailable, "the server was restarted in the middle of the answer; ask again"), agent.ErrInterrupted)
}

// keepPrefix is what the client ids of facts that were kept together begin with.
func keepPrefix(e *chat.Event) string {
	i := strings.LastIndexByte(e.ClientID, '-')
	return e.ClientID[:i+1]
}

// ask puts the questions of a round into the log, all at once: a round whose
// questions are there was heard to its end.
func (r *round) ask(ctx context.Context, asked []question) ([]chat.Event, error) {
	rec := record{Round: r.n}
	if r.before != nil {
		rec.State, rec.Messages, rec.Run = r.before.State, r.before.Messages, r.before.Run
	}
	bodies := []chat.Body{nil}
	for _, q := range asked {
		rec.IDs = append(rec.IDs, q.id)
		bodies = append(bodies, q.body)
	}
	bodies[0] = rec.body()
	for _, u := range r.s.usage {
		if _, err := r.s.store(ctx, u); err != nil {
			return nil, err
		}
	}
	r.s.usage = nil
	return r.s.keep(ctx, bodies...)
}

// hear waits for the answers to the questions of a round; events are its record
// and the questions.
func (r *round) awaitAnswers(ctx context.Context, events []chat.Event) error {
	r.before, _ = recordOf(&events[0])
	r.answers = nil
	for i := range events[1:] {
		e := &events[i+1]
		one := answered{id: strconv.Itoa(i + 1)}
		if r.before != nil && i < len(r.before.IDs) && r.before.IDs[i] != "" {
			one.id = r.before.IDs[i]
		}
		if p, ok := chat.AsPrompt(e); ok {
			body, err := r.turn.Answer(ctx, p.RequestID)
			if err != nil && !errors.Is(err, agent.ErrExpired) && !errors.Is(err, agent.ErrWithdrawn) {
				return err
			}
			one.body, one.why, one.asked = body, err, p
		}
		r.answers = append(r.answers, one)
	}
	return nil
}

// waiting is the last question of earlier attempts, when nothing was said behind
// it.
func waiting(turn *agent.Turn) *chat.Event {
	var last *chat.Event
	past := turn.Past()
	for i := range past {
		e := &past[i]
		switch e.Body.(type) {
		case chat.AgentInputRequest:
			if _, ok := chat.AsPrompt(e); ok {
				last = e
			}
		case chat.AgentText, chat.AgentThinking, chat.AgentToolCall:
			last = nil
		}
	}
	return last
}

// expired reports whether nobody answered in time.
func (q *answered) expired() bool { return errors.Is(q.why, agent.ErrExpired) }
