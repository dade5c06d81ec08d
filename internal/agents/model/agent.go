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

// Agent answers turns with a language model.
type Agent struct {
	opt      Options
	client   *http.Client
	endpoint *endpoint

	mu      sync.Mutex
	problem *Failure // of the last request; nil if it succeeded
}

// New returns an agent. It opens no connections.
func New(opt Options) *Agent {
	opt.fill()
	a := &Agent{opt: opt, client: &http.Client{Transport: transport()}}
	a.endpoint = newEndpoint(&a.opt, a.client)
	return a
}

// Answer answers a turn; see the package documentation.
func (a *Agent) Answer(ctx context.Context, turn *agent.Turn) error {
	r, err := a.newRound(ctx, turn)
	if err != nil {
		return err
	}
	err = r.readSettings(ctx)
	if err == nil {
		err = r.loop(ctx)
	}
	f, ok := asFailure(err)
	if !ok || ctx.Err() != nil {
		return err
	}
	return f.public()
}

// Close closes the connections to tool servers. No turn may run.
func (a *Agent) Close() {
	var wg sync.WaitGroup
	for _, s := range a.opt.Servers {
		wg.Go(s.Close)
	}
	wg.Wait()
	a.client.CloseIdleConnections()
}

// Health returns the problems that the last request or the last Probe found.
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

// Probe checks that the endpoint and the tool servers respond, and returns Health.
func (a *Agent) Probe(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, s := range a.opt.Servers {
		wg.Go(func() { _ = s.Probe(ctx) }) // Health returns the result
	}
	key, err := a.opt.Key()
	if err != nil {
		a.setProblem(&Failure{Code: agent.CodeNoKey, Msg: "the model's key is missing: " + err.Error(), err: err})
	} else if err := a.endpoint.list(ctx, key); err == nil {
		a.setProblem(nil)
	} else if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		a.setProblem(&Failure{Code: agent.CodeTimeout, Msg: "the model's endpoint did not answer in time", err: err})
	} else if f, failed := asFailure(failure(ctx, err)); failed && ctx.Err() == nil {
		switch {
		case f.Code == agent.CodeDenied || f.Code == agent.CodeDown || f.Code == agent.CodeTimeout || f.Code == agent.CodeCutOff && disconnected(err):
			a.setProblem(f)
		default: // some endpoints cannot list models, or use another format, but work
			a.setProblem(nil)
		}
	}
	wg.Wait()
	return a.Health()
}

// setProblem stores the current problem of the endpoint; nil means none.
func (a *Agent) setProblem(f *Failure) {
	if f != nil && (f.Code == agent.CodeOverflow || f.Code == agent.CodeEmpty) {
		return // not a problem of the endpoint
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.problem = f
}

// round is one attempt at a turn.
type round struct {
	agent      *Agent
	opt        *Options
	endpoint   *endpoint
	turn       *agent.Turn
	started    chat.Event // turn.started
	state      *state
	tools      []tool.Tool // the tools offered to the model
	missing    map[string]bool
	settings   chat.Settings // the session's settings
	forkedAt   chat.Seq      // approvals up to here were given in the session that this one was forked from
	compact    chat.Seq      // messages before this event are to be summarised
	reportPart *agent.Turn   // see reports
	sums       int           // number of summaries in this attempt
}

func (a *Agent) newRound(ctx context.Context, turn *agent.Turn) (*round, error) {
	started, err := turn.Started(ctx)
	if err != nil {
		return nil, err
	}
	return &round{agent: a, opt: &a.opt, endpoint: a.endpoint, turn: turn, started: started, state: newState(turn, started.Seq)}, nil
}

// loop reads the turn's position from the log and performs the next action, until the
// turn is answered.
func (r *round) loop(ctx context.Context) error {
	for {
		if err := r.state.read(ctx, r.turn); err != nil {
			return err
		}
		if err := r.saveGrants(ctx); err != nil {
			return err
		}
		pending := r.state.pending()
		if len(pending) == 0 && r.state.steps > 0 {
			if _, err := r.turn.NewEvents(ctx); err != nil {
				return err
			}
			if err := r.state.read(ctx, r.turn); err != nil {
				return err
			}
		}
		if len(pending) == 0 && r.state.answered() {
			return nil
		}
		if err := r.updateTools(ctx); err != nil {
			return err
		}
		var err error
		switch {
		case len(pending) > 0:
			err = r.finishAll(ctx, pending)
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

// listTools gets the tools of all servers in parallel, except those in without.
func (a *Agent) listTools(ctx context.Context, without []string) (lists [][]tool.Tool, errs []error) {
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

// updateTools updates the list of available tools. It reports a server that cannot be
// reached once; the model continues without that server's tools.
func (r *round) updateTools(ctx context.Context) error {
	lists, errs := r.agent.listTools(ctx, r.settings.Without)
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
		if err := r.reports().Status(ctx, message, "tools"); err != nil {
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
