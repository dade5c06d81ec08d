package model

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/internal/llm"
)

// answerWriter writes an answer to the session as previews while the model produces it.
type answerWriter struct {
	part    *agent.Turn
	writers []*blockWriter
	current *blockWriter
}

// blockWriter is the writer of one block of the answer.
type blockWriter struct {
	*agent.Writer
	kind  llm.DeltaKind
	index int
	used  bool // the latest attempt of this step writes to it
}

// restart prepares the writers for another attempt at the same step.
func (s *answerWriter) restart() {
	for _, w := range s.writers {
		w.Restart()
		w.used = false
	}
	s.current = nil
}

// stream calls ask and writes the deltas that ask passes to its callback. It writes
// the first delta synchronously, to keep the time to the first token short. A
// goroutine writes the others and combines deltas that arrive during a write, so that
// slow writes do not slow down reading from the model.
func (s *answerWriter) stream(ctx context.Context, ask func(ctx context.Context, see func(llm.Delta) error) (llm.Answer, error)) (llm.Answer, error) {
	asked, cancel := context.WithCancel(ctx) // canceled when a write fails
	defer cancel()
	var pieces chan llm.Delta        // nil until the second delta arrives
	inputDone := make(chan struct{}) // closed after the last delta
	writeErr := make(chan error, 1)  // the result of writeAll
	first := true
	answer, err := ask(asked, func(d llm.Delta) error {
		switch {
		case d.Kind == llm.DeltaCall || d.Text == "":
			return nil
		case first:
			first = false
			return s.write(ctx, d)
		case pieces == nil:
			pieces = make(chan llm.Delta, 1024)
			go func() {
				err := s.writeAll(ctx, pieces, inputDone)
				if err != nil {
					cancel()
				}
				writeErr <- err
			}()
		}
		select {
		case pieces <- d:
			return nil
		case <-asked.Done():
			return context.Cause(asked)
		}
	})
	if pieces == nil {
		return answer, err
	}
	close(inputDone)
	close(pieces)
	if err := <-writeErr; err != nil {
		return llm.Answer{}, err
	}
	return answer, err
}

// pace is the minimum time between two writes. Readers cannot see a higher rate, and
// fewer writes cost less. The first delta is written immediately.
const pace = 4 * time.Millisecond

// writeAll writes deltas as they arrive and combines those that arrive within pace. The
// caller closes inputDone after the last delta, which ends the current wait.
func (s *answerWriter) writeAll(ctx context.Context, pieces <-chan llm.Delta, inputDone <-chan struct{}) error {
	var next llm.Delta
	var text strings.Builder // the combined text of next
	shown := time.Now()      // the time of the last write; stream has just written the first delta
	flush := func() error {
		if text.Len() == 0 {
			return nil
		}
		next.Text = text.String()
		text.Reset()
		err := s.write(ctx, next)
		shown = time.Now()
		return err
	}
	take := func(d llm.Delta) error {
		if text.Len() > 0 && (d.Kind != next.Kind || d.Index != next.Index) {
			if err := flush(); err != nil {
				return err
			}
		}
		next = d
		text.WriteString(d.Text)
		return nil
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for d := range pieces {
		if err := take(d); err != nil {
			return err
		}
		// Wait instead of waking up for every delta, which costs more than the write.
		if wait := pace - time.Since(shown); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-inputDone:
			}
		}
		for more := true; more && text.Len() < 64<<10; {
			select {
			case d, ok := <-pieces:
				if !ok {
					return flush()
				}
				if err := take(d); err != nil {
					return err
				}
			default:
				more = false
			}
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return flush()
}

func (s *answerWriter) write(ctx context.Context, d llm.Delta) error {
	if s.current == nil || s.current.kind != d.Kind || s.current.index != d.Index {
		s.current = s.block(d)
	}
	return s.current.Write(ctx, d.Text)
}

// block returns the writer for the next block of the answer. It reuses a block of the
// same kind from an earlier attempt, so that readers see that block continue.
func (s *answerWriter) block(d llm.Delta) *blockWriter {
	for _, w := range s.writers {
		if w.kind == d.Kind && !w.used {
			w.index, w.used = d.Index, true
			return w
		}
	}
	w := &blockWriter{kind: d.Kind, index: d.Index, used: true}
	n := strconv.Itoa(len(s.writers) + 1)
	if d.Kind == llm.DeltaThinking {
		w.Writer = s.part.Part("k" + n).Think()
	} else {
		w.Writer = s.part.Part("t" + n).Stream(false)
	}
	s.writers = append(s.writers, w)
	return w
}
