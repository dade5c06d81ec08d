package letta

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/record"
	"github.com/parley-hq/parley/internal/sleep"
)

// kindCallback is the kind of the records of callbacks. They stay, with the result of the call.
const kindCallback = "callback"

// maxCallbacks bounds the callbacks that wait for Run; further ones are refused.
const maxCallbacks = 256

// callbackTries is how often a callback is tried. The pause between two tries doubles.
const callbackTries = 4

// pendingCallback is a callback that Run has to make.
type pendingCallback struct {
	workspace string
	id        string // of its record
}

// callbackID is the id of the record of a run's callback.
func callbackID(run string) string { return "callback-" + strings.TrimPrefix(run, llm.RunPrefix) }

// checkCallback refuses an address that cannot be called.
func (d *Dialect) checkCallback(address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return malformed("callback_url: it must be an http or https address without a name and password")
	}
	if len(d.callbacks) == maxCallbacks {
		return chat.Errorf(chat.SlowDown, "too many callbacks are waiting; try again in a moment")
	}
	return nil
}

// addCallback stores that a run's end is to be called back. A run has one callback, the first one that was requested.
func (q *request) addCallback(run *run, address string) error {
	if address == "" {
		return nil
	}
	id, added := callbackID(run.ID), false
	_, err := q.records.Change(q.ctx, id, func(old *record.Record, _ func(string) *record.Record) (*record.Record, error) {
		if added = old == nil; !added {
			return nil, nil
		}
		return &record.Record{
			Kind: kindCallback, ID: id, Owner: q.caller.Actor, StoredWith: string(run.session),
			Fields: map[string]json.RawMessage{"run_id": quote(run.ID), "url": quote(address)},
		}, nil
	})
	if err == nil && added {
		q.enqueue(q.records.Workspace, id)
	}
	return err
}

// enqueue hands a callback to Run. When the queue is full the callback is made after the next start.
func (d *Dialect) enqueue(workspace, id string) {
	select {
	case d.callbacks <- pendingCallback{workspace, id}:
	default:
		d.log.Warn("a callback waits for the next start: too many are waiting", "callback", id)
	}
}

// Run makes callbacks and finishes deletions until ctx ends. It begins with those that an earlier process left.
func (d *Dialect) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { d.sets.Run(ctx) })
	for {
		select {
		case p := <-d.callbacks:
			wg.Go(func() {
				if err := d.opt.Conns.Guard(func() error { return d.callBack(ctx, p) }); err != nil && ctx.Err() == nil {
					d.log.WarnContext(ctx, "a callback was not made", "callback", p.id, "code", chat.CodeOf(err), "err", err)
				}
			})
		case <-ctx.Done():
			return nil
		}
	}
}

// callBack waits for the end of a run, makes its callback and stores the result.
func (d *Dialect) callBack(ctx context.Context, p pendingCallback) error {
	c := chat.Trusted
	c.Workspace = p.workspace
	q, err := d.request(ctx, c)
	if err != nil {
		return err
	}
	rec := q.records.Get(kindCallback, p.id)
	if rec == nil || rec.Fields["sent_at"] != nil {
		return nil
	}
	run, err := q.loadRun(rec.Text("run_id"))
	if absent(err) {
		return nil // the conversation was erased
	}
	if err != nil {
		return err
	}
	f := &follower{request: q, conv: run.conv, run: run}
	if err := f.follow(func([]stream.Item) error { return nil }, nil); err != nil {
		return err
	}
	state, err := q.runState(run)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"run_id": run.ID, "agent_id": run.AgentID, "status": state["status"], "stop_reason": state["stop_reason"],
		"completed_at": state["completed_at"], "metadata": state["metadata"],
	})
	if err != nil {
		return err
	}
	status, failed := d.post(ctx, rec.Text("url"), body)
	if ctx.Err() != nil {
		return ctx.Err() // the next process makes the callback
	}
	fields := map[string]json.RawMessage{"sent_at": quote(chat.AtOf(time.Now()).String())}
	if status > 0 {
		fields["status_code"] = json.RawMessage(itoa(status))
	}
	if failed != nil {
		fields["error"] = quote(chat.Public(failed).Msg)
	}
	_, err = q.records.SetFields(ctx, rec, fields)
	return err
}

// post calls an address until it answers with a status below 500, up to callbackTries times.
func (d *Dialect) post(ctx context.Context, address string, body []byte) (status int, err error) {
	pause := d.opt.TryPause
	for try := 1; ; try++ {
		status, err = d.opt.Post(ctx, address, body)
		if err == nil && status >= 500 {
			err = chat.Errorf(chat.Unavailable, "it answered %d", status)
		}
		if err == nil || try == callbackTries {
			return status, err
		}
		if err := sleep.For(ctx, pause); err != nil {
			return status, err
		}
		pause *= 2
	}
}

// addCallbackState adds the state of a run's callback to the run.
func addCallbackState(records *record.Set, state map[string]any) {
	rec := records.Get(kindCallback, callbackID(state["id"].(string)))
	if rec == nil {
		return
	}
	for field, key := range map[string]string{"url": "callback_url", "sent_at": "callback_sent_at", "status_code": "callback_status_code", "error": "callback_error"} {
		if v := rec.Fields[field]; v != nil {
			state[key] = v
		}
	}
}
