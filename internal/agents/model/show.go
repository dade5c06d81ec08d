package model

import (
	"context"
	"strconv"
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
	var waiting *unwritten          // nil until the second delta arrives
	writeErr := make(chan error, 1) // the result of writeAll
	first := true
	answer, err := ask(asked, func(d llm.Delta) error {
		switch {
		case d.Kind == llm.DeltaCall || d.Text == "":
			return nil
		case first:
			first = false
			return s.write(ctx, d)
		case waiting == nil:
			waiting = newUnwritten()
			go func() {
				err := s.writeAll(ctx, waiting)
				if err != nil {
					cancel()
				}
				writeErr <- err
			}()
		}
		return waiting.add(asked, d)
	})
	if waiting == nil {
		return answer, err
	}
	close(waiting.done)
	if err := <-writeErr; err != nil {
		return llm.Answer{}, err
	}
	return answer, err
}

// pace is the minimum time between two writes. Readers cannot see a higher rate, and
// fewer writes cost less. The first delta is written immediately.
const pace = 4 * time.Millisecond

// writeAll writes deltas as they arrive, those that arrive within pace together.
func (s *answerWriter) writeAll(ctx context.Context, waiting *unwritten) error {
	shown := time.Now() // the time of the last write; stream has just written the first delta
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for last := false; !last; shown = time.Now() {
		select {
		case <-waiting.arrived:
			// Wait instead of waking up for every delta, which costs more than the write.
			timer.Reset(pace - time.Since(shown))
			select {
			case <-timer.C:
			case <-waiting.done:
			}
		case <-waiting.done:
			last = true
		}
		for _, d := range waiting.take() {
			if err := s.write(ctx, d); err != nil {
				return err
			}
		}
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
