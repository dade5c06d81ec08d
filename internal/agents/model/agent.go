package model

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/tool"
)

// Agent lets a language model answer.
type Agent struct {
	opt      Options
	client   *http.Client
	endpoint *endpoint
	turns    sync.WaitGroup

	mu      sync.Mutex
	problem *Failure // of the last request
}

// New returns an agent. Nothing is connected yet.
func New(opt Options) (*Agent, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	opt.fill()
	a := &Agent{opt: opt, client: opt.Client}
	if a.client == nil {
		a.client = &http.Client{Transport: transport()}
	}
	a.endpoint = newEndpoint(&a.opt, a.client)
	return a, nil
}

// Answer answers a turn; see the package's comment.
func (a *Agent) Answer(ctx context.Context, turn *agent.Turn) error {
	a.turns.Add(1)
	defer a.turns.Done()
	started, err := turn.Started(ctx)
	if err != nil {
		return err
	}
	r := &round{agent: a, opt: &a.opt, endpoint: a.endpoint, turn: turn, started: started, state: newState(turn, started.Seq)}
	err = r.choose(ctx)
	if err == nil {
		err = r.loop(ctx)
	}
	f, ok := asFailure(err)
	if !ok || ctx.Err() != nil {
		return err
	}
	return f.public()
}

// Close waits for the turns under way, then ends the connections to tools. No
// turn may begin after it was called.
func (a *Agent) Close() {
	a.turns.Wait()
	var wg sync.WaitGroup
	for _, s := range a.opt.Servers {
		wg.Go(s.Close)
	}
	wg.Wait()
	if a.opt.Client == nil {
		a.client.CloseIdleConnections()
	}
}

// Health says what is wrong, as far as it is known from the last request, or
// the last Probe.
func (a *Agent) Health() error {
	a.mu.Lock()
	problem := a.problem
	a.mu.Unlock()
	var errs []error
	if problem != nil {
		errs = append(errs, problem)
	}
	for _, s := range a.opt.Servers {
		errs = append(errs, s.Health())
	}
	return errors.Join(errs...)
}

// Probe asks endpoint and tools for a sign of life; Health gives the result.
func (a *Agent) Probe(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, s := range a.opt.Servers {
		wg.Go(func() { _ = s.Probe(ctx) }) // it keeps the result
	}
	key, err := a.opt.Key()
	if err != nil {
		a.noted(&Failure{Code: agent.CodeNoKey, Msg: "the model's key is missing: " + err.Error(), err: err})
	} else if err := a.endpoint.list(ctx, key); err == nil {
		a.noted(nil)
	} else if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		a.noted(&Failure{Code: agent.CodeTimeout, Msg: "the model's endpoint did not answer in time", err: err})
	} else if f, failed := asFailure(failure(ctx, err)); failed && ctx.Err() == nil {
		switch {
		case f.Code == agent.CodeDenied || f.Code == agent.CodeDown || f.Code == agent.CodeTimeout || f.Code == agent.CodeCutOff && disconnected(err):
			a.noted(f)
		default: // many endpoints cannot list models, or do so in a form of their own, and work
			a.noted(nil)
		}
	}
	wg.Wait()
	return a.Health()
}

// noted keeps what is wrong with the endpoint; nil is nothing.
func (a *Agent) noted(f *Failure) {
	if f != nil && (f.Code == agent.CodeOverflow || f.Code == agent.CodeEmpty) {
		return // the endpoint is well
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.problem = f
}

// round is one turn being answered.
type round struct {
	agent      *Agent
	opt        *Options
	endpoint   *endpoint
	turn       *agent.Turn
	started    chat.Event // turn.started
	state      *state
	tools      []tool.Tool // those that can be used now
	missing    map[string]bool
	chosen     chat.Settings // by people, for the session
	forkedAt   chat.Seq      // what was allowed up to there was allowed in another session
	compact    chat.Seq      // what was said before is to be summarised
	remarkPart *agent.Turn   // see remarks
	sums       int           // summaries this attempt has made
}

// loop reads from the log where the turn is, and makes the next move.
func (r *round) loop(ctx context.Context) error {
	for {
		if err := r.state.read(ctx, r.turn); err != nil {
			return err
		}
		if err := r.keep(ctx); err != nil {
			return err
		}
		pending := r.state.pending()
		if len(pending) == 0 && r.state.steps > 0 {
			if _, err := r.turn.News(ctx); err != nil {
				return err
			}
			if err := r.state.read(ctx, r.turn); err != nil {
				return err
			}
		}
		if len(pending) == 0 && r.state.answered() {
			return nil
		}
		if err := r.equip(ctx); err != nil {
			return err
		}
		var err error
		switch {
		case len(pending) > 0:
			err = r.run(ctx, pending)
		case r.state.steps >= r.opt.MaxSteps:
			return &Failure{Code: agent.CodeTooMany, Msg: fmt.Sprintf(
				"the model has used tools %d times without coming to an end, so it was stopped; say how to go on, or raise max_steps in the configuration", r.state.steps)}
		default:
			err = r.step(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// listed asks all servers for their tools at once, except those that are to be
// left out.
func (a *Agent) listed(ctx context.Context, without []string) (lists [][]tool.Tool, errs []error) {
	lists, errs = make([][]tool.Tool, len(a.opt.Servers)), make([]error, len(a.opt.Servers))
	var wg sync.WaitGroup
	for i, s := range a.opt.Servers {
		if !slices.Contains(without, s.Name()) {
			wg.Go(func() { lists[i], errs[i] = s.Tools(ctx) })
		}
	}
	wg.Wait()
	return lists, errs
}

// equip finds out which tools there are. A server that cannot be reached is
// reported once; the model continues without its tools.
func (r *round) equip(ctx context.Context) error {
	lists, errs := r.agent.listed(ctx, r.chosen.Without)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.tools = slices.Clone(r.opt.Tools)
	for i, s := range r.opt.Servers {
		r.tools = append(r.tools, lists[i]...)
		if errs[i] == nil || r.missing[s.Name()] {
			continue
		}
		if r.missing == nil {
			r.missing = map[string]bool{}
		}
		r.missing[s.Name()] = true
		message := fmt.Sprintf("The tools of %s are not there: %s", s.Name(), errs[i])
		if err := r.remarks().Status(ctx, message, "tools"); err != nil {
			return err
		}
	}
	r.tools = slices.DeleteFunc(r.tools, func(t tool.Tool) bool { return !r.allowed(t.Name) })
	for _, c := range r.turn.ClientTools() {
		if _, taken := r.find(c.Name); !taken {
			r.tools = append(r.tools, tool.Tool{Name: c.Name, Description: c.Description, Parameters: c.Parameters, Client: true})
		}
	}
	return nil
}
