package letta

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// kindCallback is the kind of the records that say who is to be called when a
// run has ended. They stay, with what came of the call.
const kindCallback = "callback"

// maxCalls bounds the calls that wait for a run of this process to take them up;
// beyond it a request for one is refused.
const maxCalls = 256

// tries is how often somebody is called who cannot be reached, and how long
// apart: the pause doubles.
const (
	tries    = 4
	tryPause = time.Second
)

// pending is a call that is to be made.
type pending struct {
	workspace string
	id        string // of its record
}

// callbackID names the record of a run's call.
func callbackID(run string) string { return "callback-" + strings.TrimPrefix(run, llm.RunPrefix) }

// checkCallback refuses an address that nobody can be called at.
func (d *Dialect) checkCallback(address string) error {
	if address == "" {
		return nil
	}
	if d.opt.Post == nil {
		return chat.Errorf(chat.Invalid, "callback_url: this server calls nobody; look at the run with GET /v1/runs/{run_id}, or follow it with POST /v1/runs/{run_id}/stream")
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return unfit("callback_url: it must be an http or https address without a name and password")
	}
	if len(d.calls) == maxCalls {
		return chat.Errorf(chat.SlowDown, "too many calls wait to be taken up; try again in a moment")
	}
	return nil
}

// callLater has somebody called when a run has ended. The wish is a fact when it
// returns. A run has one call: the first that was asked for.
func (d *Dialect) callLater(ctx context.Context, c chat.Caller, run *run, address string) error {
	if address == "" {
		return nil
	}
	b, err := d.bookOf(ctx, c)
	if err != nil {
		return err
	}
	id, added := callbackID(run.id), false
	_, err = b.change(ctx, id, func(old *record) (record, error) {
		if added = old == nil; !added {
			return record{}, errKeep
		}
		return record{
			Kind: kindCallback, ID: id, Owner: c.Actor, page: string(run.session),
			Fields: map[string]json.RawMessage{"run_id": quote(run.id), "url": quote(address)},
		}, nil
	})
	if err == nil && added {
		d.enqueue(b.workspace, id)
	}
	return err
}

// enqueue hands a call to Run. When there is no room it is made after the next
// start.
func (d *Dialect) enqueue(workspace, id string) {
	select {
	case d.calls <- pending{workspace, id}:
	default:
		d.log.Warn("a callback waits for the next start: too many are under way", "callback", id)
	}
}

// Run makes the calls that clients asked for until ctx ends, and waits for those
// under way. It begins with what the process before left undone: calls, and what
// was being deleted.
func (d *Dialect) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	if err := d.openAll(ctx); err != nil && ctx.Err() == nil {
		d.log.ErrorContext(ctx, "what was left undone before cannot be read", "err", err)
	}
	for {
		select {
		case p := <-d.calls:
			wg.Go(func() { d.callBack(ctx, p) })
		case id := <-d.erased:
			d.follows(ctx, id)
		case <-ctx.Done():
			return nil
		}
	}
}

// callBack waits for the end of a run and tells of it.
func (d *Dialect) callBack(ctx context.Context, p pending) {
	c := chat.Trusted
	c.Workspace = p.workspace
	b, err := d.bookOf(ctx, c)
	if err == nil {
		if rec := b.get(kindCallback, p.id); rec != nil && rec.Fields["sent_at"] == nil {
			err = d.callNow(ctx, c, b, rec)
		}
	}
	if err != nil && ctx.Err() == nil {
		d.log.WarnContext(ctx, "a callback was not made", "callback", p.id, "code", chat.CodeOf(err), "err", err)
	}
}

func (d *Dialect) callNow(ctx context.Context, c chat.Caller, b *book, rec *record) error {
	run, err := d.loadRun(ctx, c, rec.text("run_id"))
	if absent(err) {
		return nil // it was erased; there is nothing to tell
	}
	if err != nil {
		return err
	}
	place := &place{session: run.session, agentID: run.agentID, conversation: run.conversation}
	f := &follower{d: d, caller: c, place: place, run: run}
	nothing := func() error { return nil }
	if err := f.follow(ctx, func([]item) error { return nil }, nothing); err != nil {
		return err
	}
	state, err := d.runState(ctx, c, run)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"run_id": run.id, "agent_id": run.agentID, "status": state["status"], "stop_reason": state["stop_reason"],
		"completed_at": state["completed_at"], "metadata": state["metadata"],
	})
	if err != nil {
		return err
	}
	status, failed := d.post(ctx, rec.text("url"), body)
	if ctx.Err() != nil {
		return ctx.Err() // the next process tells
	}
	fields := map[string]json.RawMessage{"sent_at": quote(chat.AtOf(d.opt.Now()).String())}
	if status > 0 {
		fields["status_code"] = json.RawMessage(itoa(status))
	}
	if failed != nil {
		fields["error"] = quote(chat.Public(failed).Msg)
	}
	_, err = b.update(ctx, rec, fields)
	return err
}

// post tells somebody, several times if need be.
func (d *Dialect) post(ctx context.Context, address string, body []byte) (status int, err error) {
	pause := d.opt.TryPause
	for try := 1; ; try++ {
		status, err = d.opt.Post(ctx, address, body)
		if err == nil && status >= 500 {
			err = chat.Errorf(chat.Unavailable, "it answered %d", status)
		}
		if err == nil || try == tries {
			return status, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return status, ctx.Err()
		}
		pause *= 2
	}
}

// withCall adds to a run what is known of its call.
func withCall(b *book, state map[string]any) {
	rec := b.get(kindCallback, callbackID(state["id"].(string)))
	if rec == nil {
		return
	}
	for field, key := range map[string]string{"url": "callback_url", "sent_at": "callback_sent_at", "status_code": "callback_status_code", "error": "callback_error"} {
		if v := rec.Fields[field]; v != nil {
			state[key] = v
		}
	}
}
