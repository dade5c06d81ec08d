package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/internal/load"
	"github.com/parley-hq/parley/internal/serverprocess"
)

// process is a server under measurement.
type process struct {
	*serverprocess.Process
	target load.Target
	ready  time.Duration // from start to the first good answer
	pprof  bool          // serves profiles
}

// startParley starts the real binary on a data folder, without NATS.
func startParley(e *env, data string) (*process, error) { return startServer(e, data, "--nats", "off") }

// startServer starts the real binary with further options.
func startServer(e *env, data string, more ...string) (*process, error) {
	p, err := start(e, e.binary, "/readyz", func(addr string) []string {
		return serverprocess.Serve(addr, data, append(more, "--pprof")...)
	})
	if err == nil {
		p.pprof = true
	}
	return p, err
}

// startSelf starts this program as another server. Its address is its last argument.
func startSelf(e *env, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(e, self, "/healthz", func(addr string) []string { return append(args, addr) })
}

func start(e *env, program, probe string, args func(addr string) []string) (*process, error) {
	s, err := serverprocess.Start(program, args)
	if err != nil {
		return nil, err
	}
	took, ok, err := s.WaitReady(e.ctx, probe)
	if err == nil && !ok {
		err = fmt.Errorf("%s did not become ready: %s", program, s.Output())
	}
	if err != nil {
		s.Kill()
		return nil, err
	}
	return &process{Process: s, target: load.Target{Host: s.Addr}, ready: took}, nil
}

// startWire starts a server that does not speak HTTP. It is ready when its wire can be opened.
func startWire(e *env, w load.Wire, program string, args func(addr string) []string) (*process, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, err
	}
	s, err := serverprocess.Start(path, args)
	if err != nil {
		return nil, err
	}
	p := &process{Process: s, target: load.Target{Host: s.Addr}}
	for end := time.Now().Add(20 * time.Second); ; {
		c, err := load.Dial(p.target, w)
		if err == nil {
			return p, c.Close()
		}
		if time.Now().After(end) || e.ctx.Err() != nil {
			s.Kill()
			return nil, fmt.Errorf("%s did not become ready: %w: %s", program, err, s.Output())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// stop ends the process in order and waits for it.
func (p *process) stop() {
	if err := p.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// proc reads a file of the process below /proc.
func (p *process) proc(name string) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.PID(), name))
	return string(b), err
}

// memory reads a field of /proc/PID/status in bytes: VmRSS, or VmHWM for the peak.
func (p *process) memory(field string) (int64, error) {
	status, err := p.proc("status")
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(l, field+":"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no %s", field)
}

// cpu is the processor time that the process has used, in steps of 10 ms.
func (p *process) cpu() time.Duration {
	stat, err := p.proc("stat")
	if err != nil {
		return 0
	}
	var ticks int64
	if _, rest, ok := strings.Cut(stat, ") "); ok {
		for _, f := range strings.Fields(rest)[11:13] { // utime and stime
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// waitIdle waits until the server uses no more processor time.
func (p *process) waitIdle(e *env) error {
	for last, end := time.Duration(-1), time.Now().Add(time.Minute); ; {
		now := p.cpu()
		if now-last <= 20*time.Millisecond {
			return nil
		}
		if last = now; time.Now().After(end) {
			return errors.New("the server does not become idle")
		}
		select {
		case <-time.After(300 * time.Millisecond):
		case <-e.ctx.Done():
			return e.ctx.Err()
		}
	}
}

// resetPeak resets VmHWM.
func (p *process) resetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0)
}

// measure runs a load on the server. With -profile it also takes a CPU profile of Parley.
func (p *process) measure(e *env, name string, run func() (load.Result, error)) (r trial, err error) {
	done := make(chan error, 1)
	if e.prof != "" && p.pprof {
		go func() { done <- p.profile(e, name) }()
	} else {
		done <- nil
	}
	before := p.cpu()
	res, err := run()
	r.rate, r.latency = res.PerSecond, res.Latency
	r.cost = float64((p.cpu() - before).Microseconds()) / float64(max(res.Count, 1))
	return r, errors.Join(err, <-done)
}

func (p *process) profile(e *env, name string) error {
	res, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", p.target.Host, max(1, int(e.span.Seconds()+0.5))))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	file, err := os.Create(filepath.Join(e.prof, name+".pprof"))
	if err != nil {
		return err
	}
	_, err = io.Copy(file, res.Body)
	return errors.Join(err, file.Close())
}

// profileSelf takes a CPU profile of this process until end is called, if -profile is set.
func profileSelf(e *env, name string) (end func(), err error) {
	if e.prof == "" {
		return func() {}, nil
	}
	f, err := os.Create(filepath.Join(e.prof, name+".pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}
