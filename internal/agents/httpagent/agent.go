package httpagent

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
	lastError error // of the last call; nil when it succeeded
}

// New returns an agent. It does not connect.
func New(opt Options) (*Agent, error) {
	opt.fill()
	u, err := url.Parse(opt.URL)
	if err != nil {
		return nil, err
	}
	return &Agent{opt: opt, url: u, client: newClient(&opt)}, nil
}

// Close drops idle connections.
func (a *Agent) Close() { a.client.CloseIdleConnections() }

// Health returns the error of the last call or probe.
func (a *Agent) Health() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lastError
}

// setHealth stores the result of a call for Health, without its code. A bad
// answer to one turn does not change it.
func (a *Agent) setHealth(err error) {
	if e, ok := errors.AsType[*chat.Error](err); ok {
		err = errors.New(e.Msg)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastError = err
}

// Probe checks that the key is available and that the endpoint accepts connections.
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
		err = a.connectionError(nil, err)
	}
	a.setHealth(err)
	return a.Health()
}

// round is one call of the endpoint within a turn. When the endpoint asks
// something, the next round calls it again with the answers.
type round struct {
	n        int
	turn     *agent.Turn
	out      *output
	previous *roundRecord   // of the round before
	answers  []promptAnswer // to the prompts of the round before
	usedTool bool           // an earlier attempt used a tool after its last prompts
}

// roundRecord is stored together with the prompts of a round, for the next one.
type roundRecord struct {
	Round    int               `json:"round"`
	IDs      []string          `json:"ids,omitempty"`      // the endpoint's ids of its prompts
	State    json.RawMessage   `json:"state,omitempty"`    // the endpoint's state
	Messages map[string]string `json:"messages,omitempty"` // the endpoint's ids of its messages, by block
	Run      string            `json:"run,omitempty"`      // the id of the run
}

// recordType is the type of the event that stores a roundRecord.
const recordType = "remote.round"

func (r *roundRecord) body() chat.Body {
	b, _ := json.Marshal(r)
	return chat.Unknown{Name: recordType, Payload: b}
}

func recordOf(e *chat.Event) (*roundRecord, bool) {
	if e.Type != recordType {
		return nil, false
	}
	var r roundRecord
	return &r, json.Unmarshal(e.Payload, &r) == nil
}

// promptRequest is a prompt that an endpoint opens at the end of a round.
type promptRequest struct {
	id   string // the endpoint's
	body chat.Body
}

// maxPrompts bounds the prompts of one round.
const maxPrompts = 32

// promptAnswer is a closed prompt.
type promptAnswer struct {
	id     string // the endpoint's
	prompt chat.Prompt
	body   chat.Body // the response; nil when the prompt expired or was withdrawn
	err    error     // agent.ErrExpired or agent.ErrWithdrawn when body is nil
}

// protocol makes one call and returns the prompts that the endpoint opens.
type protocol func(ctx context.Context, a *Agent, r *round) ([]promptRequest, error)

var protocols = map[string]protocol{OpenAI: openAI, NDJSON: ndjson, NeMo: nemo, AGUI: agUI}

// maxRounds bounds the calls of one turn.
const maxRounds = 100

// Answer calls the endpoint and stores its answer. It calls again with the
// answers for as long as the endpoint opens prompts.
func (a *Agent) Answer(ctx context.Context, turn *agent.Turn) error {
	err := a.answer(ctx, turn)
	if a.opt.Protocol == AGUI && agent.Stopped(ctx) {
		a.stopParley(ctx, turn)
	}
	return err
}

func (a *Agent) answer(ctx context.Context, turn *agent.Turn) error {
	r := &round{n: 1, turn: turn}
	if turn.Resumed() {
		done, err := a.restore(ctx, r)
		if done || err != nil {
			return err
		}
	}
	for ; r.n <= maxRounds; r.n++ {
		before := r.out
		if r.out = newOutput(turn, r.n); before != nil {
			r.out.calls, r.out.openCalls = before.calls, before.openCalls
		}
		prompts, err := protocols[a.opt.Protocol](ctx, a, r)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if len(prompts) == 0 {
			return r.out.finish(ctx)
		}
		events, err := r.storePrompts(ctx, prompts)
		if err != nil {
			return err
		}
		if err := r.awaitAnswers(ctx, events); err != nil {
			return err
		}
	}
	return agent.Failf(agent.CodeTooMany, chat.Unavailable, "the agent opened prompts %d times in one turn without finishing, so it was stopped; say how to continue", maxRounds)
}

// restore reads what earlier attempts stored. done means that the answer is
// complete; otherwise r is the round to call next.
func (a *Agent) restore(ctx context.Context, r *round) (done bool, err error) {
	var asked []chat.Event // the record and the prompts of the last round that has prompts
	for _, e := range r.turn.Past() {
		switch b := e.Body.(type) {
		case chat.AgentText:
			done = done || b.Final && !b.Partial
		case chat.AgentToolCall:
			r.usedTool = r.usedTool || !a.runsElsewhere(r.turn, b.Tool)
		case chat.Unknown:
			if rec, ok := recordOf(&e); ok && len(rec.IDs) > 0 {
				asked, r.usedTool = []chat.Event{e}, false
			}
		case chat.AgentInputRequest, chat.AgentApprovalRequest, chat.AgentPermissionRequest:
			if len(asked) > 0 && strings.HasPrefix(e.ClientID, batchPrefix(&asked[0])) {
				asked = append(asked, e)
			}
		}
	}
	if done {
		return true, nil
	}
	if len(asked) > 1 {
		rec, _ := recordOf(&asked[0])
		r.n = rec.Round
		if err := r.awaitAnswers(ctx, asked); err != nil {
			return false, err
		}
		r.n++
	}
	if a.opt.Protocol == NeMo && a.opt.Socket && lastOpenPrompt(r.turn) != nil {
		return false, nil // the run may still wait on the server; nemoSocket looks for it
	}
	return false, a.mayRepeat(r.usedTool)
}

// mayRepeat reports an error when the endpoint must not be called again after a
// crash.
func (a *Agent) mayRepeat(usedTool bool) error {
	switch {
	case a.opt.Recover == RecoverAlways, a.opt.Recover == RecoverSafe && !usedTool:
		return nil
	case usedTool:
		return errors.Join(agent.Failf(agent.CodeLost, chat.Unavailable,
			"the server was restarted while the agent was using tools, and what they did is not known; look, then ask again"), agent.ErrInterrupted)
	}
	return errors.Join(agent.Failf(agent.CodeLost, chat.Unavailable, "the server was restarted in the middle of the answer; ask again"), agent.ErrInterrupted)
}

// batchPrefix is the common beginning of the client ids of events that were
// stored by one call of storeAll.
func batchPrefix(e *chat.Event) string {
	i := strings.LastIndexByte(e.ClientID, '-')
	return e.ClientID[:i+1]
}

// storePrompts stores the record and the prompts of a round in one commit: after
// a crash a round either has all its prompts or none.
func (r *round) storePrompts(ctx context.Context, prompts []promptRequest) ([]chat.Event, error) {
	rec := roundRecord{Round: r.n}
	if r.previous != nil {
		rec.State, rec.Messages, rec.Run = r.previous.State, r.previous.Messages, r.previous.Run
	}
	bodies := []chat.Body{nil}
	for _, p := range prompts {
		rec.IDs = append(rec.IDs, p.id)
		bodies = append(bodies, p.body)
	}
	bodies[0] = rec.body()
	if err := r.out.storeUsage(ctx); err != nil {
		return nil, err
	}
	return r.out.storeAll(ctx, bodies...)
}

// awaitAnswers waits until all prompts of a round are closed. events are the
// record of the round and its prompts.
func (r *round) awaitAnswers(ctx context.Context, events []chat.Event) error {
	r.previous, _ = recordOf(&events[0])
	r.answers = nil
	for i := range events[1:] {
		one := promptAnswer{id: strconv.Itoa(i + 1)}
		if r.previous != nil && i < len(r.previous.IDs) && r.previous.IDs[i] != "" {
			one.id = r.previous.IDs[i]
		}
		if p, ok := chat.AsPrompt(&events[i+1]); ok {
			body, err := r.turn.Answer(ctx, p.RequestID)
			if err != nil && !errors.Is(err, agent.ErrExpired) && !errors.Is(err, agent.ErrWithdrawn) {
				return err
			}
			one.prompt, one.body, one.err = p, body, err
		}
		r.answers = append(r.answers, one)
	}
	return nil
}

// lastOpenPrompt returns the last input request of earlier attempts if nothing
// was stored after it, else nil.
func lastOpenPrompt(turn *agent.Turn) *chat.Event {
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
