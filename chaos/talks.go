package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/dialecttest"
	"github.com/parley-hq/parley/internal/sleep"
)

// roundsPerSession is how many messages are sent in a session before the next one begins.
const roundsPerSession = 14

// roundTime is how long a round may take.
const roundTime = 90 * time.Second

// talks are conversations of clients of all dialects, each in sessions of its own and all of them in one session.
type talks struct {
	log        *client.Client // reads what is stored
	urls, nats []string
	dir        string // for the files of conversations that fail
	idle       time.Duration

	mu       sync.Mutex
	counts   map[string]*talkCounts
	sessions map[chat.SessionID]bool
	problems []string // what clients saw
	wrong    []string // what the log has
	saved    int      // files of conversations that failed
}

// talkCounts is what the clients of a dialect have done and seen.
type talkCounts struct {
	conversations, messages, resumes, answers, stops, problems int
	repeated                                                   int           // bytes that a NeMo client got twice
	pause                                                      time.Duration // the longest time without progress
}

// talker is a client in one conversation.
type talker struct {
	dialecttest.Client
	dialect string
	n       *talkCounts
	mu      *sync.Mutex
	last    time.Time // of its progress
	notes   notes
}

func newTalks(log *client.Client, urls, nats []string, dir string) *talks {
	t := &talks{log: log, urls: urls, nats: nats, dir: dir, idle: 5 * time.Second, counts: map[string]*talkCounts{}, sessions: map[chat.SessionID]bool{}}
	for _, d := range dialecttest.Dialects {
		t.counts[d] = &talkCounts{}
	}
	return t
}

// start starts all conversations in wg. After ends they begin no new round.
func (t *talks) start(ctx, ends context.Context, wg *sync.WaitGroup) {
	for i, d := range dialecttest.Dialects {
		wg.Go(func() {
			t.repeat(ctx, ends, func(n int) *talk {
				return &talk{talks: t, id: chat.SessionID(fmt.Sprintf("talk-%s-%d", d, n)), names: []string{d}, node: i + n}
			})
		})
	}
	wg.Go(func() {
		t.repeat(ctx, ends, func(n int) *talk {
			return &talk{talks: t, id: chat.SessionID(fmt.Sprintf("talk-shared-%d", n)), names: dialecttest.Dialects, node: n}
		})
	})
}

// repeat holds one conversation after the other.
func (t *talks) repeat(ctx, ends context.Context, begin func(n int) *talk) {
	for n := 0; ends.Err() == nil; n++ {
		one := begin(n)
		if err := one.run(ctx, ends); err != nil && ctx.Err() == nil {
			dialect := one.names[one.speaker%len(one.names)]
			if of := (*dialectError)(nil); errors.As(err, &of) {
				dialect = of.dialect
			}
			err = fmt.Errorf("%s, round %d: %w", one.id, one.round, err)
			t.problem(dialect, err)
			if err := one.save(ctx, err); err != nil {
				fmt.Fprintln(os.Stderr, "chaos:", err)
			}
		}
		one.close()
	}
}

func (t *talks) problem(dialect string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[dialect].problems++
	list := &t.problems
	if of := (*logError)(nil); errors.As(err, &of) {
		list = &t.wrong
	}
	*list = append(*list, dialect+": "+err.Error())
}

// count changes the counts of a dialect.
func (t *talks) count(dialect string, change func(*talkCounts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(t.counts[dialect])
}

// client returns a client in a session that begins with a node.
func (t *talks) client(dialect string, id chat.SessionID, node int) (*talker, error) {
	k := &talker{dialect: dialect, n: t.counts[dialect], mu: &t.mu, last: time.Now()}
	from := func(list []string) []string {
		return append(slices.Clone(list[node%len(list):]), list[:node%len(list)]...)
	}
	var err error
	k.Client, err = dialecttest.New(dialect, dialecttest.Options{
		URLs: from(t.urls), NATS: from(t.nats), Session: string(id), Idle: t.idle, Progress: k.progress, Note: k.notes.add,
		Resumed: func() { t.count(dialect, func(n *talkCounts) { n.resumes++ }) },
	})
	return k, err
}

// progress notes the time since the last progress.
func (k *talker) progress() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.n.pause = max(k.n.pause, now.Sub(k.last))
	k.last = now
}

// do calls the client. Its error has the name of the dialect.
func (k *talker) do(call func() (dialecttest.Seen, error)) (dialecttest.Seen, error) {
	k.mu.Lock()
	k.last = time.Now()
	k.mu.Unlock()
	seen, err := call()
	if err != nil {
		err = &dialectError{k.dialect, err}
	}
	return seen, err
}

// dialectError is what a client of a dialect must not see.
type dialectError struct {
	dialect string
	error
}

// logError is what the log must not have, whatever clients saw.
type logError struct{ error }

// talk is one conversation. Its clients take turns to send a message, and all of them follow the answer.
type talk struct {
	*talks
	id      chat.SessionID
	names   []string // of the dialects
	node    int      // where the first client begins
	clients []*talker
	speaker int // the client that sends
	round   int
	last    chat.Seq // everything up to here was checked
}

func (k *talk) close() {
	for _, c := range k.clients {
		c.Close()
	}
}

// run holds the conversation.
func (k *talk) run(ctx, ends context.Context) error {
	if _, err := k.log.Create(ctx, client.NewSession{ID: k.id, Agent: "demo"}); err != nil {
		return err
	}
	k.mu.Lock()
	k.sessions[k.id] = true
	k.mu.Unlock()
	for i, d := range k.names {
		c, err := k.client(d, k.id, k.node+i)
		if err != nil {
			return err
		}
		k.clients = append(k.clients, c)
		k.count(d, func(n *talkCounts) { n.conversations++ })
	}
	for ; k.round < roundsPerSession && ends.Err() == nil; k.round++ {
		k.speaker = (k.round + k.node) % len(k.clients)
		limited, cancel := context.WithTimeoutCause(ctx, roundTime, fmt.Errorf("the round did not end within %s", roundTime))
		err := k.oneRound(limited)
		cancel()
		if err != nil {
			return err
		}
		sleep.For(ends, 100*time.Millisecond)
	}
	return nil
}

// oneRound sends a message and follows its turn: a text, a question that is answered, or a turn that is stopped.
func (k *talk) oneRound(ctx context.Context) error {
	words := 100 + 150*(k.round%6)
	r := &round{text: fmt.Sprintf("/stream %d 200", words), want: streamed(words)}
	switch k.round % 7 {
	case 3:
		r = &round{text: "/ask text", want: fmt.Sprintf("You answered: re-%d", k.round), asks: true}
		if len(k.clients) > 1 { // an answer of Letta that comes too late is a message, but not if it approves
			r = &round{text: `/approve deploy {"x":1}`, want: `deploy gave {"x":1}`, asks: true, approves: true}
		}
	case 5:
		r = &round{text: "/stream 100000 100", stopped: true}
	}
	k.count(k.clients[k.speaker].dialect, func(n *talkCounts) { n.messages++ })
	key := fmt.Sprintf("%s-%d", k.id, k.round)
	ended, stop := context.WithCancel(ctx)
	defer stop()
	var stopping sync.WaitGroup
	if r.stopped {
		stopping.Go(func() { r.stopErr = k.stopTurn(ended, key+"-instead") })
	}
	seen, err := k.each(func(i int, c *talker) (dialecttest.Seen, error) {
		if i == k.speaker {
			return c.Say(ctx, key, r.text)
		}
		turn, err := k.turn(ctx)
		if err != nil {
			return dialecttest.Seen{}, err
		}
		joined, leave := k.untilEnded(ctx, c, turn)
		defer leave()
		return c.Join(joined, string(turn))
	})
	stop()
	stopping.Wait()
	if err == nil {
		err = r.stopErr
	}
	if err != nil {
		return err
	}
	if r.asks {
		for i, s := range seen {
			if err := shows(k.clients[i].dialect, s, dialecttest.Asks); err != nil {
				return err
			}
		}
		if seen, err = k.answer(ctx, r, seen, key); err != nil {
			return err
		}
	}
	return k.check(ctx, r, seen)
}

// each calls a function for all clients at the same time.
func (k *talk) each(call func(i int, c *talker) (dialecttest.Seen, error)) ([]dialecttest.Seen, error) {
	seen, errs := make([]dialecttest.Seen, len(k.clients)), make([]error, len(k.clients))
	var all sync.WaitGroup
	for i, c := range k.clients {
		all.Go(func() {
			seen[i], errs[i] = c.do(func() (dialecttest.Seen, error) { return call(i, c) })
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return seen, err
		}
	}
	return seen, nil
}

// answer answers a question, in a shared session with two clients at the same time.
func (k *talk) answer(ctx context.Context, r *round, asked []dialecttest.Seen, key string) ([]dialecttest.Seen, error) {
	first := k.speaker
	r.answers = map[int]string{first: fmt.Sprintf("%s-re-%d", key, first)}
	if n := len(k.clients); n > 1 { // all pairs have their turn
		second := (first + 1 + (2*k.node+k.round/7)%(n-1)) % n
		r.answers[second] = fmt.Sprintf("%s-re-%d", key, second)
	}
	return k.each(func(i int, c *talker) (dialecttest.Seen, error) {
		if r.answers[i] == "" {
			return c.Rest(ctx)
		}
		k.count(c.dialect, func(n *talkCounts) { n.answers++ })
		p := asked[i].Prompt
		p.Approval = r.approves
		return c.Answer(ctx, p, r.answers[i], fmt.Sprintf("re-%d", k.round))
	})
}

// untilEnded returns the context of a client that follows a turn which another one has begun: for NeMo it ends some time after the turn has.
func (k *talk) untilEnded(ctx context.Context, c *talker, turn chat.TurnID) (context.Context, func()) {
	if c.dialect != "nemo" {
		return ctx, func() {}
	}
	joined, leave := context.WithCancelCause(ctx)
	go func() {
		for sleep.For(joined, time.Second) == nil {
			for e, err := range k.log.Events(joined, k.id, client.EventQuery{After: k.last, Types: []string{"turn.completed"}}) {
				if err == nil && e.Turn == turn && sleep.For(joined, 3*k.idle) == nil {
					leave(dialecttest.ErrUnseen)
				}
			}
		}
	}()
	return joined, func() { leave(nil) }
}

// turn waits for the turn of the message that was sent in this round.
func (k *talk) turn(ctx context.Context) (chat.TurnID, error) {
	for ctx.Err() == nil {
		for e, err := range k.log.Events(ctx, k.id, client.EventQuery{After: k.last, Types: []string{"turn.started"}}) {
			if err != nil {
				return "", err
			}
			return e.Turn, nil
		}
		sleep.For(ctx, 50*time.Millisecond)
	}
	return "", context.Cause(ctx)
}

// stopTurn stops the turn once it has begun, again and again until ctx ends.
func (k *talk) stopTurn(ctx context.Context, key string) error {
	c := k.clients[(k.speaker+1)%len(k.clients)]
	if len(k.clients) > 1 && c.dialect == "nemo" { // its next message stops its own turns only
		c = k.clients[(k.speaker+2)%len(k.clients)]
	}
	if _, err := k.turn(ctx); err != nil {
		return nil
	}
	k.count(c.dialect, func(n *talkCounts) { n.stops++ })
	for wait := time.Duration(300+100*k.round) * time.Millisecond; sleep.For(ctx, wait) == nil; wait = 3 * time.Second {
		if err := c.Stop(ctx, key); err != nil && ctx.Err() == nil {
			return &dialectError{c.dialect, fmt.Errorf("stop: %w", err)}
		}
	}
	return nil
}
