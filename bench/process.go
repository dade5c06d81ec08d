package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/parley-hq/parley/internal/load"
)

// process is a server under measurement.
type process struct {
	cmd    *exec.Cmd
	target load.Target
	log    bytes.Buffer
	ready  time.Duration // from start to the first good answer
}

// startParley starts the real binary on a data folder.
func startParley(e *env, data string) (*process, error) {
	return start(e, "/readyz", func(addr string) *exec.Cmd {
		return exec.CommandContext(e.ctx, e.binary, "serve", "--addr", addr, "--data", data, "--pprof", "--min-free=-1", "--min-free-percent=-1", "--log-level", "warn", "--nats", e.nats)
	})
}

// startPeer starts the centrifuge server, which is this same program.
func startPeer(e *env) (*process, error) { return startSelf(e, peerFlag) }

// startBare starts a process that opens a store with bare Pebble.
func startBare(e *env, dir string) (*process, error) { return startSelf(e, bareFlag, dir) }

func startSelf(e *env, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(e, "/healthz", func(addr string) *exec.Cmd { return exec.CommandContext(e.ctx, self, append(args, addr)...) })
}

func start(e *env, probe string, command func(addr string) *exec.Cmd) (*process, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	l.Close()
	p := &process{cmd: command(addr), target: load.Target{Host: addr}}
	p.cmd.Stdout, p.cmd.Stderr = io.Discard, &p.log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 20 * time.Second
	begun := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w (make build makes it)", p.cmd.Path, err)
	}
	for {
		res, err := http.Get("http://" + addr + probe)
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				p.ready = time.Since(begun)
				http.DefaultClient.CloseIdleConnections()
				return p, nil
			}
		}
		var over syscall.WaitStatus
		ended, _ := syscall.Wait4(p.cmd.Process.Pid, &over, syscall.WNOHANG, nil)
		if ended != 0 || time.Since(begun) > time.Minute || e.ctx.Err() != nil {
			p.stop()
			return nil, fmt.Errorf("%s did not become ready: %s", p.cmd.Path, p.log.String())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// stop ends the process in order and waits for it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		fmt.Fprintf(os.Stderr, "bench: %s ended with %v: %s\n", filepath.Base(p.cmd.Path), err, p.log.String())
	}
}

// memory reads a field of /proc/PID/status in bytes: VmRSS, or VmHWM for the peak.
func (p *process) memory(field string) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(l, field+":"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no %s", field)
}

// cpu is how much processor time the process has used, in ticks of 10 ms.
func (p *process) cpu() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	var ticks int64
	if _, rest, ok := strings.Cut(string(b), ") "); ok {
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

// rest waits until the server has nothing more to do.
func (p *process) rest(e *env) error {
	for last, end := time.Duration(-1), time.Now().Add(time.Minute); ; {
		now := p.cpu()
		if now-last <= 20*time.Millisecond {
			return nil
		}
		if last = now; time.Now().After(end) {
			return errors.New("the server does not come to rest")
		}
		select {
		case <-time.After(300 * time.Millisecond):
		case <-e.ctx.Done():
			return e.ctx.Err()
		}
	}
}

// resetPeak makes VmHWM begin anew.
func (p *process) resetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0)
}

// profile takes a CPU profile of the server while f runs, when that is wanted.
func (p *process) profile(e *env, name string, f func() error) error {
	if e.prof == "" {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		seconds := max(1, int(e.span.Seconds()+0.5))
		res, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", p.target.Host, seconds))
		if err != nil {
			done <- err
			return
		}
		defer res.Body.Close()
		file, err := os.Create(filepath.Join(e.prof, name+".pprof"))
		if err == nil {
			_, err = io.Copy(file, res.Body)
			err = errors.Join(err, file.Close())
		}
		done <- err
	}()
	err := f()
	return errors.Join(err, <-done)
}

// pair is Parley and its peer, side by side.
type pair struct{ ours, peer *process }

func startPair(e *env, name string) (pair, error) {
	ours, err := startParley(e, filepath.Join(e.temp, name))
	if err != nil {
		return pair{}, err
	}
	peer, err := startPeer(e)
	if err != nil {
		ours.stop()
		return pair{}, err
	}
	return pair{ours, peer}, nil
}

func (p pair) stop() {
	p.ours.stop()
	p.peer.stop()
}

// profileSelf takes a CPU profile of this process until end is called, when that
// is wanted.
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
