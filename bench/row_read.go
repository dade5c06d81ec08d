package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/internal/load"
)

// storm has thousands of readers that come back at the same time and miss the same events. The peer has them in memory.
func storm(e *env) ([]line, error) {
	readers, missed := 5000, 500
	if e.short {
		readers = 500
	}
	pr, err := startPair(e, "storm")
	if err != nil {
		return nil, err
	}
	defer pr.stop()
	ours := &side{name: "Parley", run: func(i int) (r trial, err error) {
		name := fmt.Sprintf("storm-%d", i)
		ids, err := pr.ours.sessions(name, 1)
		if err != nil {
			return r, err
		}
		if err := fill(pr.ours, ids[0], missed); err != nil {
			return r, err
		}
		_, err = pr.ours.measure(e, name, func() (res load.Result, err error) {
			r, err = resume(pr.ours, readers, missed, func(rs *load.Readers, n int) error {
				return rs.WatchSSE(pr.ours.target, slices.Repeat(ids, n), func(id string) string { return "/parley/v1/sessions/" + id + "/stream?after=1" })
			})
			return res, err
		})
		return r, err
	}}
	peer := &side{name: "peer", run: func(i int) (r trial, err error) {
		channel := fmt.Sprintf("%sstorm-%d", kept, i)
		epoch, err := fillPeer(pr.peer, channel, missed)
		if err != nil {
			return r, err
		}
		return resume(pr.peer, readers, missed, func(rs *load.Readers, n int) error {
			return rs.WatchWS(pr.peer.target, recovering{epoch: epoch}, slices.Repeat([]string{channel}, n))
		})
	}}
	if err := alternate(e, e.trials, ours, peer); err != nil {
		return nil, err
	}
	what := fmt.Sprintf("resume storm: %d readers x %d missed events, SSE", readers, missed)
	return []line{
		{
			what: what + ", time", ours: fmt.Sprintf("%.2f s", ours.took().Seconds()), peer: fmt.Sprintf("%.2f s", peer.took().Seconds()),
			ratio: float64(peer.took()) / float64(ours.took()), value: ours.took().Seconds(), need: 2.5, want: 1.5, must: "2.5 s", aim: "1.5 s",
		},
		{
			what: what + ", peak memory", ours: mb(ours.memory()), peer: mb(peer.memory()), ratio: float64(peer.memory()) / float64(ours.memory()),
			value: float64(ours.memory()) / 1e6, need: 200, want: 80, must: "200 MB", aim: "80 MB",
		},
	}, nil
}

// resume opens all streams from a few goroutines and waits for the last event. It measures the time and the peak memory.
func resume(p *process, readers, missed int, watch func(rs *load.Readers, n int) error) (r trial, err error) {
	const openers = 4
	if err := p.resetPeak(); err != nil {
		return r, err
	}
	sets, errs := make([]*load.Readers, openers), make([]error, openers)
	for i := range sets {
		if sets[i], err = load.NewReaders(); err != nil {
			return r, err
		}
		defer sets[i].Close()
	}
	begun := time.Now()
	var wg sync.WaitGroup
	for i, set := range sets {
		wg.Go(func() {
			n := readers / openers
			if errs[i] = watch(set, n); errs[i] == nil {
				errs[i] = set.Wait(int64(n * missed))
			}
		})
	}
	wg.Wait()
	r.took = time.Since(begun)
	r.memory, err = p.memory("VmHWM")
	return r, errors.Join(append(errs, err)...)
}

// fill appends n events to a session.
func fill(p *process, id string, n int) error {
	conn, err := load.DialHTTP(p.target)
	if err != nil {
		return err
	}
	defer conn.Close()
	for done := 0; done < n; {
		size := min(500, n-done)
		if _, err := conn.Do("POST", "/parley/v1/sessions/"+id+"/events", "", conversation(done, size)); err != nil {
			return err
		}
		done += size
	}
	return nil
}

var words = strings.Repeat("lorem ipsum ", 30)

// message is the text of a message that is read later, with a stamp to count.
func message(i int) string {
	return string(load.AppendStamp(nil, time.Now())) + " " + words[i%100:i%100+230]
}

// conversation returns drafts of a conversation with tool calls.
func conversation(from, n int) []byte {
	var b []byte
	for i := from; i < from+n; i++ {
		b = append(b, "[,"[min(i-from, 1)])
		text := message(i)
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

// history reads the last events of a session in one compressed answer. The peer has them in memory and does not compress.
func history(e *env) (lines []line, err error) {
	pr, err := startPair(e, "history")
	if err != nil {
		return nil, err
	}
	defer pr.stop()
	ids, err := pr.ours.sessions("history", 1)
	if err != nil {
		return nil, err
	}
	if err := fill(pr.ours, ids[0], 5000); err != nil {
		return nil, err
	}
	if _, err := fillPeer(pr.peer, kept+ids[0], 5000); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	conn, err := load.DialHTTP(pr.ours.target)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ws, err := load.OpenWS(pr.peer.target, centrifugeJSON{})
	if err != nil {
		return nil, err
	}
	defer ws.Close()
	for _, coding := range []string{"gzip", "zstd", "identity"} {
		var size, peerSize int
		ours := &side{name: "Parley", run: func(int) (r trial, err error) {
			_, merr := pr.ours.measure(e, "history-"+coding, func() (load.Result, error) {
				r, err = repeat(e.span, func() error {
					b, err := conn.Do("GET", "/parley/v1/sessions/"+ids[0]+"/events?limit=1000&order=desc", "Accept-Encoding: "+coding+"\r\n", nil)
					size = len(b)
					return err
				})
				return load.Result{}, err
			})
			return r, merr
		}}
		peer := &side{name: "peer", run: func(int) (trial, error) {
			return repeat(e.span, func() error {
				b, err := askHistory(ws, kept+ids[0], 1000)
				peerSize = len(b)
				return err
			})
		}}
		if err := alternate(e, 1, ours, peer); err != nil {
			return lines, err
		}
		p50, peerP50 := ours.quantile(.5), peer.quantile(.5)
		l := line{
			what:  "last 1000 events of a session, " + coding + ", p50",
			ours:  fmt.Sprintf("%s (p99 %s, %d KB)", ms(p50), ms(ours.quantile(.99)), size/1000),
			peer:  fmt.Sprintf("%s (p99 %s, %d KB)", ms(peerP50), ms(peer.quantile(.99)), peerSize/1000),
			ratio: float64(peerP50) / float64(p50),
		}
		if coding != "identity" {
			l.value, l.need, l.want, l.must, l.aim = inMS(p50), 5, 2, "5 ms", "2 ms"
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// openLong reads the snapshot of a long session, right after a start and later. The peer is bare Pebble in this process
// that reads as many values as there are events, which is the least that a session without stored states would cost. The
// line also has the time for as many values as there are items.
func openLong(e *env) ([]line, error) {
	const items = 400
	events := 100_000
	if e.short {
		events = 10_000
	}
	data := filepath.Join(e.temp, "long")
	p, err := startParley(e, data)
	if err != nil {
		return nil, err
	}
	ids, err := p.sessions("long", 1)
	if err == nil {
		err = fill(p, ids[0], events)
	}
	p.stop()
	if err != nil {
		return nil, err
	}
	db, err := openBare(data + "-bare")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(db.fill(events), db.Close()); err != nil {
		return nil, err
	}
	ours := &side{name: "Parley", run: func(i int) (trial, error) { return openOnce(e, data, ids[0], items, i) }}
	bare := func(n int) *side {
		return &side{name: "bare Pebble", run: func(int) (trial, error) { return openOnceBare(e, data+"-bare", n) }}
	}
	all, few := bare(events), bare(items)
	if err := alternate(e, e.trials, ours, all, few); err != nil {
		return nil, err
	}
	what := fmt.Sprintf("open a session of %d events: snapshot with the last %d items, ", events, items)
	later, laterAll, laterFew := ours.latency(), all.latency(), few.latency()
	l := func(what, more string, ours, peer time.Duration) line {
		return line{
			what: what, ours: ms(ours) + more, peer: fmt.Sprintf("%s, bare Pebble reads all (%s for %d)", ms(peer), ms(laterFew.Quantile(.5)), items),
			ratio: float64(peer) / float64(ours), value: inMS(ours), need: 50, want: 10, must: "50 ms", aim: "10 ms",
		}
	}
	return []line{
		l(what+"first after a start", "", ours.took(), all.took()),
		l(what+"p50 later", fmt.Sprintf(" (p99 %s)", ms(later.Quantile(.99))), later.Quantile(.5), laterAll.Quantile(.5)),
	}, nil
}

// openOnce starts the server and reads the snapshot of a session, once and then for a trial.
func openOnce(e *env, data, id string, items, i int) (r trial, err error) {
	p, err := startParley(e, data)
	if err != nil {
		return r, err
	}
	defer p.stop()
	conn, err := load.DialHTTP(p.target)
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
	db, err := openBare(dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return repeat(e.span/4, func() error { return db.last(n) })
}
