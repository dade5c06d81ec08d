package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/parley-hq/parley/internal/load"
)

// lastEvents has clients that read the end of a session at the same time. Parley and the bare server compress the answer.
func lastEvents(e *env) ([]*result, error) {
	const clients, events = 32, 1000
	sides, err := compare(e, kept+"last", func(d *driver) bool { return d.last != nil }, func(x *instance) (func(int) (trial, error), error) {
		ids, err := x.sessions(kept+"last", 1)
		if err != nil {
			return nil, err
		}
		by := x.append
		if by == nil {
			by = x.write
		}
		if err := load.Fill(x.p.target, by, ids[0], 5*events); err != nil {
			return nil, err
		}
		return func(i int) (trial, error) {
			return x.measure(e, fmt.Sprintf("last-%d", i), func() (load.Result, error) {
				return load.Last(e.ctx, x.p.target, x.last, ids[0], clients, events, e.span)
			})
		}, nil
	})
	return []*result{{
		what: fmt.Sprintf("last %d events of a session, %d clients at once", events, clients), sides: sides,
		checks: []check{{cpu, bound{2000, ""}, bound{1000, ""}}},
	}}, err
}

// openLong reads the snapshot of a long session, right after a start and later. The peer is bare Pebble in this process
// that reads as many values as there are events, which is the least that a session without stored states would cost, or
// as many as there are items.
func openLong(e *env) ([]*result, error) {
	const items = 400
	events := e.shrink(100_000)
	data := filepath.Join(e.temp, "long")
	p, err := startParley(e, data)
	if err != nil {
		return nil, err
	}
	ids, err := load.Sessions(p.target, "long", 1)
	if err == nil {
		err = fillConversation(p.target, ids[0], events)
	}
	p.stop()
	if err != nil {
		return nil, err
	}
	db, err := openPebble(data + "-bare")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(db.fill(events), db.Close()); err != nil {
		return nil, err
	}
	bare := func(n int) *side {
		return &side{name: fmt.Sprintf("bare Pebble reads %d", n), run: func(int) (trial, error) { return openOnceBare(e, data+"-bare", n) }}
	}
	sides := []*side{
		{name: "Parley", ours: true, run: func(i int) (trial, error) { return openOnce(e, data, ids[0], items, i) }},
		bare(events), bare(items),
	}
	return []*result{{
		what: fmt.Sprintf("open a session of %d events: snapshot with the last %d items", events, items), sides: sides,
		more:   func(s *side) string { return "first after a start " + took.show(s.value(took)) },
		checks: []check{{took, bound{.05, ""}, bound{.01, ""}}, {p50, bound{50, ""}, bound{10, ""}}},
	}}, alternate(e, e.trials, sides...)
}

// openOnce starts the server and reads the snapshot of a session, once and then for a trial.
func openOnce(e *env, data, id string, items, i int) (r trial, err error) {
	p, err := startParley(e, data)
	if err != nil {
		return r, err
	}
	defer p.stop()
	conn, err := load.Dial(p.target, load.HTTP{})
	if err != nil {
		return r, err
	}
	defer conn.Close()
	_, merr := p.measure(e, fmt.Sprintf("long-%d", i), func() (load.Result, error) {
		r, err = repeat(e.span, func() error {
			_, err := conn.Do("GET", fmt.Sprintf("/parley/v1/sessions/%s/snapshot?items=%d", id, items), "Accept-Encoding: gzip\r\n", nil)
			return err
		})
		return load.Result{}, err
	})
	return r, merr
}

// openOnceBare does the same with bare Pebble and n values.
func openOnceBare(e *env, dir string, n int) (r trial, err error) {
	db, err := openPebble(dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return repeat(e.span/4, func() error { return db.last(n) })
}

// fillConversation appends n events of a conversation with tool calls.
func fillConversation(t load.Target, id string, n int) error {
	c, err := load.Dial(t, load.HTTP{})
	if err != nil {
		return err
	}
	defer c.Close()
	for done := 0; done < n; done += 500 {
		if _, err := c.Do("POST", "/parley/v1/sessions/"+id+"/events", "", conversation(done, min(500, n-done))); err != nil {
			return err
		}
	}
	return nil
}

// conversation returns drafts of a conversation with tool calls.
func conversation(from, n int) []byte {
	var b []byte
	for i := from; i < from+n; i++ {
		b = append(b, "[,"[min(i-from, 1)])
		text := strings.Repeat("lorem ipsum ", 30)[i%100 : i%100+250]
		switch i % 5 {
		case 0:
			b = fmt.Appendf(b, `{"type":"user.message","payload":{"text":"%s"}}`, text)
		case 1:
			b = fmt.Appendf(b, `{"type":"agent.tool_call","payload":{"call_id":"c%d","tool":"search","params":{"q":"%s"}}}`, i, text)
		case 2:
			b = fmt.Appendf(b, `{"type":"agent.tool_result","payload":{"call_id":"c%d","tool":"search","result":"%s"}}`, i-1, text)
		case 3:
			b = fmt.Appendf(b, `{"type":"agent.status","payload":{"message":"%s"}}`, text)
		case 4:
			b = fmt.Appendf(b, `{"type":"agent.text","payload":{"block":"b%d","text":"%s"}}`, i, text)
		}
	}
	return append(b, ']')
}
