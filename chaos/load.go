package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/sleep"
)

// load is the work that goes on while the server is killed, and what the server acknowledged.
type load struct {
	c *client.Client

	mu       sync.Mutex
	events   map[chat.SessionID]map[string]chat.Event // acknowledged, by client id
	answers  map[chat.SessionID]map[chat.Seq]string   // the text that answers a message
	files    map[chat.SessionID]map[string][]byte     // acknowledged content; nil means removed
	seen     map[chat.SessionID][]chat.Event          // by a reader that every kill disconnects
	erased   []string                                 // texts of sessions whose erasure was acknowledged
	acks     int
	problems []error
}

func newLoad(c *client.Client) *load {
	return &load{c: c, events: map[chat.SessionID]map[string]chat.Event{}, answers: map[chat.SessionID]map[chat.Seq]string{},
		files: map[chat.SessionID]map[string][]byte{}, seen: map[chat.SessionID][]chat.Event{}}
}

func (l *load) problem(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problems = append(l.problems, err)
}

// workerName is the agent that the run serves as a worker.
const workerName = "chaos-worker"

// start starts the work in wg. After ends it begins nothing new and finishes what it has begun, unless ctx ends before.
// Readers and the worker, in readers, run until ctx ends.
func (l *load) start(ctx, ends context.Context, wg, readers *sync.WaitGroup) error {
	readers.Go(func() { l.work(ctx) })
	begin := func(name, agent string) (chat.SessionID, error) {
		s, err := l.c.Create(ctx, client.NewSession{ID: chat.SessionID(name), Agent: agent})
		return s.ID, err
	}
	for i := range 3 {
		id, err := begin(fmt.Sprintf("log-%d", i), chat.NoAgent)
		if err != nil {
			return err
		}
		readers.Go(func() { l.read(ctx, id) })
		for w := range 2 {
			wg.Go(func() { l.write(ctx, ends, id, w) })
		}
		if id, err = begin(fmt.Sprintf("talk-%d", i), "demo"); err != nil {
			return err
		}
		wg.Go(func() { l.talk(ctx, ends, id, "demo") })
		if id, err = begin(fmt.Sprintf("worker-%d", i), workerName); err != nil {
			return err
		}
		wg.Go(func() { l.talk(ctx, ends, id, workerName) })
	}
	id, err := begin("files", chat.NoAgent)
	if err != nil {
		return err
	}
	wg.Go(func() { l.upload(ctx, ends, id) })
	wg.Go(func() { l.erase(ctx, ends) })
	return nil
}

// work serves the worker's agent until ctx ends. It answers each message with
// its own text.
func (l *load) work(ctx context.Context) {
	err := l.c.Work(ctx, workerName, client.WorkOptions{}, agent.Func(func(ctx context.Context, t *agent.Turn) error {
		body, ok := t.Trigger.Body.(chat.UserMessage)
		if !ok {
			return fmt.Errorf("the trigger is a %s", t.Trigger.Type)
		}
		_, err := t.Append(ctx, chat.AgentText{Block: chat.BlockID("b-" + string(t.ID)), Text: body.Text})
		return err
	}))
	if err != nil && ctx.Err() == nil {
		l.problem(fmt.Errorf("the worker ended: %w", err))
	}
}

// write appends messages one after the other.
func (l *load) write(ctx, ends context.Context, id chat.SessionID, writer int) {
	for i := 0; ends.Err() == nil; i++ {
		key := fmt.Sprintf("w%d-%d", writer, i)
		events, err := l.c.Append(ctx, id, chat.NewDraft(chat.UserMessage{Text: "message " + key}).As(key))
		if err != nil {
			l.problem(fmt.Errorf("append %s to %s: %w", key, id, err))
			return
		}
		l.acknowledge(id, key, events[0])
		sleep.For(ends, 2*time.Millisecond)
	}
}

func (l *load) acknowledge(id chat.SessionID, key string, e chat.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events[id] == nil {
		l.events[id] = map[string]chat.Event{}
	}
	l.events[id][key] = e
	l.acks++
}

// read follows a session over every kill.
func (l *load) read(ctx context.Context, id chat.SessionID) {
	for f, err := range l.c.Watch(ctx, id, client.WatchOptions{After: "0"}) {
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			l.problem(fmt.Errorf("watch %s: %w", id, err))
			return
		case f.Event != nil:
			l.mu.Lock()
			l.seen[id] = append(l.seen[id], *f.Event)
			l.mu.Unlock()
		}
	}
}

// talk sends a message, waits until its turn has ended, and sends the next one.
func (l *load) talk(ctx, ends context.Context, id chat.SessionID, agent string) {
	for i := 0; ends.Err() == nil; i++ {
		text, answer := fmt.Sprintf("question %d", i), fmt.Sprintf("question %d", i)
		if agent == "demo" {
			n := 20 + 40*(i%4)
			text, answer = fmt.Sprintf("/stream %d 200", n), streamed(n)
		}
		key := fmt.Sprintf("say-%d", i)
		e, err := l.c.Send(ctx, id, chat.UserMessage{Text: text}, key)
		if err != nil {
			l.problem(fmt.Errorf("send %s to %s: %w", key, id, err))
			return
		}
		l.acknowledge(id, key, e)
		l.mu.Lock()
		if l.answers[id] == nil {
			l.answers[id] = map[chat.Seq]string{}
		}
		l.answers[id][e.Seq] = answer
		l.mu.Unlock()
		if err := l.ended(ctx, id, e.Seq); err != nil {
			return // the check counts turns that did not end
		}
	}
}

// streamed is the demo agent's answer to /stream n.
func streamed(n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("tok%d", i+1)
	}
	return strings.Join(words, " ")
}

// ended waits for the end of the turn that a message has started.
func (l *load) ended(ctx context.Context, id chat.SessionID, message chat.Seq) error {
	var turn chat.TurnID
	for f, err := range l.c.Watch(ctx, id, client.WatchOptions{After: fmt.Sprint(message - 1)}) {
		if err != nil {
			return err
		}
		if f.Event == nil {
			continue
		}
		switch b := f.Event.Body.(type) {
		case chat.TurnStarted:
			if b.Trigger == message {
				turn = b.TurnID
			}
		case chat.TurnCompleted:
			if turn != "" && b.TurnID == turn {
				return nil
			}
		}
	}
	return ctx.Err()
}

// upload stores, replaces and removes files.
func (l *load) upload(ctx, ends context.Context, id chat.SessionID) {
	for i := 0; ends.Err() == nil; i++ {
		path := fmt.Sprintf("files/%d.bin", i%4)
		var content []byte
		var err error
		if i%5 == 4 {
			err = again(ctx, func() error { return l.c.RemoveArtifact(ctx, id, path) })
			if chat.CodeOf(err) == chat.NotFound {
				err = nil // removed, and the answer was lost
			}
		} else {
			content = bytes.Repeat([]byte(secret()), 1+i%2000)
			err = again(ctx, func() error {
				_, err := l.c.Upload(ctx, id, path, bytes.NewReader(content), client.UploadOptions{})
				return err
			})
		}
		if err != nil {
			l.problem(fmt.Errorf("change %s: %w", path, err))
			return
		}
		l.mu.Lock()
		if l.files[id] == nil {
			l.files[id] = map[string][]byte{}
		}
		l.files[id][path] = content
		l.acks++
		l.mu.Unlock()
		sleep.For(ends, 5*time.Millisecond)
	}
}

// erase creates sessions with a text that occurs nowhere else, and erases them.
func (l *load) erase(ctx, ends context.Context) {
	for i := 0; ends.Err() == nil; i++ {
		id, text := chat.SessionID(fmt.Sprintf("erase-%d", i)), secret()
		err := func() error {
			if _, err := l.c.Create(ctx, client.NewSession{ID: id, Agent: chat.NoAgent}); err != nil {
				return err
			}
			for n := range 20 {
				if _, err := l.c.Send(ctx, id, chat.UserMessage{Text: strings.Repeat(text+" ", 1+50*n)}, fmt.Sprint(n)); err != nil {
					return err
				}
			}
			if err := again(ctx, func() error {
				_, err := l.c.Upload(ctx, id, "notes.txt", strings.NewReader(text), client.UploadOptions{})
				return err
			}); err != nil {
				return err
			}
			return again(ctx, func() error {
				_, err := l.c.Delete(ctx, id)
				if chat.CodeOf(err) == chat.Gone {
					return nil // erased, and the answer was lost
				}
				return err
			})
		}()
		if err != nil {
			l.problem(fmt.Errorf("erase %s: %w", id, err))
			return
		}
		l.mu.Lock()
		l.erased = append(l.erased, text)
		l.acks++
		l.mu.Unlock()
		sleep.For(ends, 20*time.Millisecond)
	}
}

// again repeats a call that has no idempotency key and is safe to repeat, until
// the server answers.
func again(ctx context.Context, call func() error) error {
	for {
		err := call()
		if err == nil || !errors.Is(err, client.ErrUnreachable) && chat.CodeOf(err) != chat.Unavailable {
			return err
		}
		sleep.For(ctx, 50*time.Millisecond)
		if ctx.Err() != nil {
			return err
		}
	}
}

// secret is a text that occurs nowhere else.
func secret() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // does not fail
	return "secret-" + hex.EncodeToString(b[:])
}
