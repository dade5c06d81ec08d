package model

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/internal/llm"
)

// answerWriter writes an answer to the session as previews while the model produces it.
type answerWriter struct {
	part    *agent.Turn
	writers []*blockWriter
	current *blockWriter
	written time.Time // when the last deltas were written
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
// goroutine writes the others, so that slow writes do not slow down reading from the
// model; it ends when nothing waits, so that an answer that waits for its model has
// one goroutine.
func (s *answerWriter) stream(ctx context.Context, ask func(ctx context.Context, see func(llm.Delta) error) (*llm.Answer, error)) (*llm.Answer, error) {
	asked, cancel := context.WithCancel(ctx) // canceled when a write fails
	defer cancel()
	waiting := newUnwritten()
	var writer sync.WaitGroup
	var writeErr error
	first := true
	write := func() {
		if err := s.writeAll(ctx, waiting); err != nil {
			writeErr = err
			cancel()
		}
	}
	answer, err := ask(asked, func(d llm.Delta) error {
		if d.Kind == llm.DeltaCall || d.Text == "" {
			return nil
		}
		if first {
			first = false
			s.written = time.Now()
			return s.write(ctx, d)
		}
		if err := waiting.add(asked, d); err != nil {
			return err
		}
		if waiting.startWriting() {
			writer.Go(write)
		}
		return nil
	})
	close(waiting.done)
	writer.Wait()
	if writeErr != nil {
		return nil, writeErr
	}
	return answer, err
}

// pace is the minimum time between two writes. Readers cannot see a higher rate, and
// fewer writes cost less. The first delta is written immediately.
const pace = 4 * time.Millisecond

// writeAll writes the deltas that wait, those that arrive within pace together. It ends
// when none waits; after an error no other call begins.
func (s *answerWriter) writeAll(ctx context.Context, waiting *unwritten) error {
	for waiting.keepWriting() {
		if early := pace - time.Since(s.written); early > 0 {
			timer := time.NewTimer(early)
			select {
			case <-timer.C:
			case <-waiting.done:
				timer.Stop()
			}
		}
		for _, d := range waiting.take() {
			if err := s.write(ctx, d); err != nil {
				return err
			}
		}
		s.written = time.Now()
	}
	return nil
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
