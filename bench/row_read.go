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

// storm: thousands of readers come back at once and lack the same events. The
// peer keeps them in memory.
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
	ours, peer := &gale{p: pr.ours, readers: readers, missed: missed}, &gale{p: pr.peer, readers: readers, missed: missed}
	for round := range e.rounds {
		ids, err := load.Sessions(pr.ours.target, fmt.Sprintf("storm-%d", round), 1)
		if err != nil {
			return nil, err
		}
		if err := fill(pr.ours, ids[0], missed); err != nil {
			return nil, err
		}
		err = pr.ours.profile(e, fmt.Sprintf("storm-%d", round), func() error {
			return ours.blow(func(c *load.Crowd, n int) error { return c.WatchSSE(pr.ours.target, slices.Repeat(ids, n), "1") })
		})
		if err != nil {
			return nil, err
		}
		channel := kept + ids[0]
		epoch, err := fillPeer(pr.peer, channel, missed)
		if err == nil {
			err = peer.blow(func(c *load.Crowd, n int) error {
				return c.JoinWS(pr.peer.target, recovering{epoch: epoch}, slices.Repeat([]string{channel}, n))
			})
		}
		if err != nil {
			return nil, fmt.Errorf("peer: %w", err)
		}
	}
	took, peerTook, peak, peerPeak := median(ours.times), median(peer.times), median(ours.peaks), median(peer.peaks)
	what := fmt.Sprintf("resume storm: %d readers x %d missed events, SSE", readers, missed)
	return []line{
		{
			what: what + ", time", ours: fmt.Sprintf("%.2f s", took.Seconds()), peer: fmt.Sprintf("%.2f s", peerTook.Seconds()), ratio: float64(peerTook) / float64(took),
			value: took.Seconds(), need: 2.5, want: 1.5, must: "2.5 s", aim: "1.5 s",
		},
		{
			what: what + ", peak memory", ours: mb(peak), peer: mb(peerPeak), ratio: float64(peerPeak) / float64(peak),
			value: float64(peak) / 1e6, need: 200, want: 80, must: "200 MB", aim: "80 MB",
		},
	}, nil
}

// gale is a storm on one server.
type gale struct {
	p               *process
	readers, missed int
	times           []time.Duration
	peaks           []int64
}

// blow opens all streams from a few goroutines and waits for the last event.
func (g *gale) blow(watch func(c *load.Crowd, n int) error) error {
	const openers = 4
	if err := g.p.resetPeak(); err != nil {
		return err
	}
	crowds := make([]*load.Crowd, openers)
	for i := range crowds {
		c, err := load.NewCrowd()
		if err != nil {
			return err
		}
		defer c.Close()
		crowds[i] = c
	}
	errs := make([]error, openers)
	begun := time.Now()
	var wg sync.WaitGroup
	for i, c := range crowds {
		wg.Go(func() {
			mine := g.readers / openers
			if errs[i] = watch(c, mine); errs[i] == nil {
				errs[i] = c.Wait(int64(mine * g.missed))
			}
		})
	}
	wg.Wait()
	g.times = append(g.times, time.Since(begun))
	peak, err := g.p.memory("VmHWM")
	g.peaks = append(g.peaks, peak)
	return errors.Join(append(errs, err)...)
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

// conversation is drafts of a talk with tools.
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

// history: the last events of a session in one compressed answer. The peer
// gives them from memory, unpacked.
func history(e *env) (lines []line, err error) {
	pr, err := startPair(e, "history")
	if err != nil {
		return nil, err
	}
	defer pr.stop()
	ids, err := load.Sessions(pr.ours.target, "history", 1)
	if err != nil {
		return nil, err
	}
	if err := fill(pr.ours, ids[0], 5000); err != nil {
		return nil, err
	}
	if _, err := fillPeer(pr.peer, kept+ids[0], 5000); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	for _, coding := range []string{"gzip", "zstd", "identity"} {
		var h load.Hist
		var size int
		err := pr.ours.profile(e, "history-"+coding, func() (err error) {
			h, size, err = get(e, pr.ours, "/parley/v1/sessions/"+ids[0]+"/events?limit=1000&order=desc", "Accept-Encoding: "+coding+"\r\n")
			return err
		})
		if err != nil {
			return lines, err
		}
		peer, peerSize, err := peerHistory(e, pr.peer, kept+ids[0])
		if err != nil {
			return lines, fmt.Errorf("peer: %w", err)
		}
		l := line{
			what: "last 1000 events of a session, " + coding + ", p50",
			ours: fmt.Sprintf("%s (p99 %s, %d KB)", ms(h.Quantile(.5)), ms(h.Quantile(.99)), size/1000),
			peer: fmt.Sprintf("%s (p99 %s, %d KB)", ms(peer.Quantile(.5)), ms(peer.Quantile(.99)), peerSize/1000), ratio: float64(peer.Quantile(.5)) / float64(h.Quantile(.5)),
		}
		if coding != "identity" {
			l.value, l.need, l.want, l.must, l.aim = float64(h.Quantile(.5))/float64(time.Millisecond), 5, 2, "5 ms", "2 ms"
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// peerHistory asks the peer again and again.
func peerHistory(e *env, p *process, channel string) (h load.Hist, size int, err error) {
	ws, err := load.OpenWS(p.target, centrifugeJSON{})
	if err != nil {
		return h, 0, err
	}
	defer ws.Close()
	for begun := time.Now(); time.Since(begun) < e.span; {
		at := time.Now()
		b, err := askHistory(ws, channel, 1000)
		if err != nil {
			return h, 0, err
		}
		h.Add(time.Since(at))
		size = len(b)
	}
	return h, size, nil
}

// get asks for the same page again and again.
func get(e *env, p *process, path, extra string) (h load.Hist, size int, err error) {
	conn, err := load.DialHTTP(p.target)
	if err != nil {
		return h, 0, err
	}
	defer conn.Close()
	for begun := time.Now(); time.Since(begun) < e.span; {
		at := time.Now()
		b, err := conn.Do("GET", path, extra, nil)
		if err != nil {
			return h, 0, err
		}
		h.Add(time.Since(at))
		size = len(b)
	}
	return h, size, nil
}

// openLong: the snapshot of a long session, right after a start and later. The
// peer is bare Pebble in this process that reads as many values as there are
// events, which is the least that a session without stored states would cost;
// beside it stands what as many values as there are items take.
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
	ids, err := load.Sessions(p.target, "long", 1)
	if err == nil {
		err = fill(p, ids[0], events)
	}
	p.stop()
	if err != nil {
		return nil, err
	}
	db, err := openBare(filepath.Join(e.temp, "long-bare"))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(db.fill(events), db.Close()); err != nil {
		return nil, err
	}
	path := fmt.Sprintf("/parley/v1/sessions/%s/snapshot?items=%d", ids[0], items)
	var cold, bareCold []time.Duration
	var warm, bareWarm, bareFew load.Hist
	for i := range e.rounds {
		first, err := openOnce(e, data, path, fmt.Sprintf("long-%d", i), &warm)
		if err != nil {
			return nil, err
		}
		cold = append(cold, first)
		if first, err = openOnceBare(e, filepath.Join(e.temp, "long-bare"), events, &bareWarm); err != nil {
			return nil, err
		}
		bareCold = append(bareCold, first)
		if _, err = openOnceBare(e, filepath.Join(e.temp, "long-bare"), items, &bareFew); err != nil {
			return nil, err
		}
	}
	what := fmt.Sprintf("open a session of %d events: snapshot with the last %d items, ", events, items)
	l := func(what, more string, ours, peer time.Duration) line {
		return line{
			what: what, ours: ms(ours) + more, peer: fmt.Sprintf("%s, bare Pebble reads all (%s for %d)", ms(peer), ms(bareFew.Quantile(.5)), items), ratio: float64(peer) / float64(ours),
			value: float64(ours) / float64(time.Millisecond), need: 50, want: 10, must: "50 ms", aim: "10 ms",
		}
	}
	return []line{
		l(what+"first after a start", "", median(cold), median(bareCold)),
		l(what+"p50 later", fmt.Sprintf(" (p99 %s)", ms(warm.Quantile(.99))), warm.Quantile(.5), bareWarm.Quantile(.5)),
	}, nil
}

// openOnce starts the server, asks once and returns how long that took, then
// asks for a round.
func openOnce(e *env, data, path, name string, later *load.Hist) (first time.Duration, err error) {
	p, err := startParley(e, data)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	conn, err := load.DialHTTP(p.target)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	at := time.Now()
	if _, err := conn.Do("GET", path, "Accept-Encoding: gzip\r\n", nil); err != nil {
		return 0, err
	}
	first = time.Since(at)
	return first, p.profile(e, name, func() error {
		h, _, err := get(e, p, path, "Accept-Encoding: gzip\r\n")
		later.Merge(&h)
		return err
	})
}

// openOnceBare does the same with bare Pebble.
func openOnceBare(e *env, dir string, items int, later *load.Hist) (first time.Duration, err error) {
	db, err := openBare(dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if first, err = db.last(items); err != nil {
		return 0, err
	}
	for begun := time.Now(); time.Since(begun) < e.span/4; {
		took, err := db.last(items)
		if err != nil {
			return 0, err
		}
		later.Add(took)
	}
	return first, nil
}
