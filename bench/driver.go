package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/parley-hq/parley/internal/load"
)

// system is a server that can be measured.
type system struct {
	name  string
	start func(e *env, dir string) (*process, error)
	// sessions creates sessions and returns their ids; nil if they need not be created.
	sessions func(t load.Target, prefix string, n int) ([]string, error)
	// missing says how to install the program, "" when it is there; nil if it is always there.
	missing func() string
}

// there reports whether the system can be started.
func (s *system) there() bool { return s.missing == nil || s.missing() == "" }

var (
	parley     = &system{name: "Parley", start: startParley, sessions: load.Sessions}
	centrifuge = &system{name: "centrifuge", start: func(e *env, _ string) (*process, error) { return startSelf(e, centrifugeFlag) }}
	redis      = &system{name: "Redis", start: startRedis, missing: func() string {
		if _, err := exec.LookPath(redisProgram); err != nil {
			return "Redis is left out because redis-server is not installed; `apt-get install redis-server` installs it on Debian."
		}
		return ""
	}}
	nats = &system{name: "NATS", start: startNATS}
	bare = &system{name: "bare", start: func(e *env, dir string) (*process, error) { return startSelf(e, bareFlag, dir) }}
)

// kept is the prefix of sessions whose messages are read again. Servers that store nothing else keep the last of them.
const kept = "kept-"

// driver is one way to use a system. What it cannot do is nil.
type driver struct {
	name      string
	system    *system
	publish   load.Publisher
	append    load.Appender // an answered message is on disk
	write     load.Appender // an answered message may be in memory only
	subscribe load.Subscriber
	resume    load.Resumer
	last      load.Lister
}

var drivers = []*driver{
	{name: "Parley WS", system: parley, publish: load.Native{}, append: load.Native{}, write: load.Native{}, subscribe: load.Native{}, resume: load.Native{}},
	{name: "Parley SSE", system: parley, publish: load.Native{}, write: load.Native{}, subscribe: load.SSE{}, resume: load.SSE{}},
	{name: "Parley HTTP", system: parley, append: load.NativeHTTP{}, last: load.NativeHTTP{}},
	{name: "centrifuge", system: centrifuge, publish: centrifugeJSON{}, write: centrifugeJSON{}, subscribe: centrifugeJSON{}, resume: centrifugeJSON{}, last: centrifugeJSON{}},
	{name: "Redis", system: redis, append: resp{}, write: resp{}, subscribe: resp{}, resume: resp{}, last: resp{}},
	{name: "JetStream", system: nats, append: jetStream{}},
	{name: "core NATS", system: nats, publish: coreNATS{}, write: coreNATS{}, subscribe: coreNATS{}},
	// The bare server speaks Parley's protocol.
	{name: "bare", system: bare, publish: load.Native{}, append: load.Native{}, write: load.Native{}, subscribe: load.Native{}, resume: load.Native{}, last: load.NativeHTTP{}},
}

// instance is a driver and the running server that it uses.
type instance struct {
	*driver
	p *process
}

// sessions creates sessions. Their names are those of the trial, so that drivers can share a server.
func (x *instance) sessions(name string, n int) ([]string, error) {
	prefix := fmt.Sprintf("%s-%s", name, strings.ReplaceAll(x.name, " ", "-"))
	if x.system.sessions != nil {
		return x.system.sessions(x.p.target, prefix, n)
	}
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return ids, nil
}

// measure runs a load on the server.
func (x *instance) measure(e *env, name string, run func() (load.Result, error)) (trial, error) {
	return x.p.measure(e, name+"-"+strings.ReplaceAll(x.name, " ", "-"), run)
}

// compare starts the systems of all drivers that can do the work, prepares each, and runs their trials in turns. prepare
// returns the function for one trial.
func compare(e *env, name string, can func(d *driver) bool, prepare func(x *instance) (run func(i int) (trial, error), err error)) ([]*side, error) {
	running := map[*system]*process{}
	defer func() {
		for _, p := range running {
			p.stop()
		}
	}()
	var sides []*side
	for _, d := range drivers {
		if !can(d) || !d.system.there() {
			continue
		}
		if running[d.system] == nil {
			p, err := d.system.start(e, filepath.Join(e.temp, name+"-"+d.system.name))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", d.system.name, err)
			}
			running[d.system] = p
		}
		run, err := prepare(&instance{d, running[d.system]})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
		sides = append(sides, &side{name: d.name, ours: d.system == parley, run: run})
	}
	return sides, alternate(e, e.trials, sides...)
}

// withReaders runs one trial with a reader for each of the sessions. The next trial begins when the server has closed them.
func (x *instance) withReaders(e *env, name string, ids []string, run func(r *load.Readers) (load.Result, error)) (t trial, err error) {
	r, err := load.NewReaders()
	if err != nil {
		return t, err
	}
	if err = r.Watch(x.p.target, x.subscribe, ids); err == nil {
		t, err = x.measure(e, name, func() (load.Result, error) { return run(r) })
	}
	return t, errors.Join(err, r.Close(), x.p.waitIdle(e))
}
