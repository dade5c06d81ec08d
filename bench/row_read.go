package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/internal/load"
)

// storm: thousands of readers come back at once and lack the same events.
func storm(e *env) ([]line, error) {
	readers, missed := 5000, 500
	if e.short {
		readers = 500
	}
	p, err := startParley(e, filepath.Join(e.temp, "storm"))
	if err != nil {
		return nil, err
	}
	defer p.stop()
	var times []time.Duration
	var peaks []int64
	for round := range e.rounds {
		ids, err := load.Sessions(p.target, fmt.Sprintf("storm-%d", round), 1)
		if err != nil {
			return nil, err
		}
		if err := fill(p, ids[0], missed); err != nil {
			return nil, err
		}
		if err := p.resetPeak(); err != nil {
			return nil, err
		}
		err = p.profile(e, fmt.Sprintf("storm-%d", round), func() error {
			took, err := stormOnce(p, ids[0], readers, missed)
			times = append(times, took)
			return err
		})
		if err != nil {
			return nil, err
		}
		peak, err := p.memory("VmHWM")
		if err != nil {
			return nil, err
		}
		peaks = append(peaks, peak)
	}
	took, peak := median(times), median(peaks)
	what := fmt.Sprintf("resume storm: %d readers x %d missed events, SSE", readers, missed)
	return []line{
		{what: what + ", time", ours: fmt.Sprintf("%.2f s", took.Seconds()), value: took.Seconds(), need: 2.5, want: 1.5, must: "2.5 s", aim: "1.5 s"},
		{what: what + ", peak memory", ours: mb(peak), value: float64(peak) / 1e6, need: 200, want: 80, must: "200 MB", aim: "80 MB"},
	}, nil
}

// stormOnce opens all streams from a few goroutines and waits for the last event.
func stormOnce(p *process, id string, readers, missed int) (time.Duration, error) {
	const openers = 4
	crowds := make([]*load.Crowd, openers)
	for i := range crowds {
		c, err := load.NewCrowd()
		if err != nil {
			return 0, err
		}
		defer c.Close()
		crowds[i] = c
	}
	errs := make([]error, openers)
	begun := time.Now()
	var wg sync.WaitGroup
	for i, c := range crowds {
		wg.Go(func() {
			mine := readers / openers
			if errs[i] = c.WatchSSE(p.target, slices.Repeat([]string{id}, mine), "1"); errs[i] == nil {
				errs[i] = c.Wait(int64(mine * missed))
			}
		})
	}
	wg.Wait()
	took := time.Since(begun)
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return took, nil
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

// conversation is drafts of a talk with tools, 300 bytes of payload each.
func conversation(from, n int) []byte {
	words := strings.Repeat("lorem ipsum ", 30)
	var b []byte
	for i := from; i < from+n; i++ {
		b = append(b, "[,"[min(i-from, 1)])
		text := string(load.AppendStamp(nil, time.Now())) + " " + words[i%100:i%100+230]
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

// history: the last events of a session in one compressed answer.
func history(e *env) (lines []line, err error) {
	p, err := startParley(e, filepath.Join(e.temp, "history"))
	if err != nil {
		return nil, err
	}
	defer p.stop()
	ids, err := load.Sessions(p.target, "history", 1)
	if err != nil {
		return nil, err
	}
	if err := fill(p, ids[0], 5000); err != nil {
		return nil, err
	}
	for _, coding := range []string{"gzip", "zstd", "identity"} {
		var h load.Hist
		var size int
		err := p.profile(e, "history-"+coding, func() (err error) {
			h, size, err = get(e, p, "/parley/v1/sessions/"+ids[0]+"/events?limit=1000&order=desc", "Accept-Encoding: "+coding+"\r\n")
			return err
		})
		if err != nil {
			return lines, err
		}
		l := line{
			what: "last 1000 events of a session, " + coding + ", p50",
			ours: fmt.Sprintf("%s (p99 %s, %d KB)", ms(h.Quantile(.5)), ms(h.Quantile(.99)), size/1000),
		}
		if coding != "identity" {
			l.value, l.need, l.want, l.must, l.aim = float64(h.Quantile(.5))/float64(time.Millisecond), 5, 2, "5 ms", "2 ms"
		}
		lines = append(lines, l)
	}
	return lines, nil
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

// openLong: the snapshot of a long session, right after a start and later.
func openLong(e *env) ([]line, error) {
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
	path := "/parley/v1/sessions/" + ids[0] + "/snapshot?items=400"
	var cold []time.Duration
	var warm load.Hist
	for i := range e.rounds {
		p, err := startParley(e, data)
		if err != nil {
			return nil, err
		}
		err = func() error {
			defer p.stop()
			conn, err := load.DialHTTP(p.target)
			if err != nil {
				return err
			}
			defer conn.Close()
			at := time.Now()
			if _, err := conn.Do("GET", path, "Accept-Encoding: gzip\r\n", nil); err != nil {
				return err
			}
			cold = append(cold, time.Since(at))
			return p.profile(e, fmt.Sprintf("long-%d", i), func() error {
				h, _, err := get(e, p, path, "Accept-Encoding: gzip\r\n")
				warm.Merge(&h)
				return err
			})
		}()
		if err != nil {
			return nil, err
		}
	}
	toMS := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	what := fmt.Sprintf("open a session of %d events: snapshot with the last 400 items, ", events)
	return []line{
		{what: what + "first after a start", ours: ms(median(cold)), value: toMS(median(cold)), need: 50, want: 10, must: "50 ms", aim: "10 ms"},
		{what: what + "p50 later", ours: fmt.Sprintf("%s (p99 %s)", ms(warm.Quantile(.5)), ms(warm.Quantile(.99))), value: toMS(warm.Quantile(.5)), need: 50, want: 10, must: "50 ms", aim: "10 ms"},
	}, nil
}
