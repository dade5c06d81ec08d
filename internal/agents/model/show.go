package model

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/internal/llm"
)

// show shows an answer while it is being written.
type show struct {
	part    *agent.Turn
	writers []*written
	current *written
}

// written is a block of the answer.
type written struct {
	*agent.Writer
	kind  llm.DeltaKind
	index int
	used  bool // by the latest try
}

// again prepares for the same step being asked once more.
func (s *show) again() {
	for _, w := range s.writers {
		w.Again()
		w.used = false
	}
	s.current = nil
}

// stream runs ask and shows what it gives. The first piece is shown right where
// it came in, because people wait for it. The others are shown beside: what
// came while something was being shown is shown together, so a fast model does
// not wait for its readers.
func (s *show) stream(ctx context.Context, ask func(ctx context.Context, see func(llm.Delta) error) (llm.Answer, error)) (llm.Answer, error) {
	asked, broken := context.WithCancel(ctx) // it ends when no more can be shown
	defer broken()
	var pieces chan llm.Delta     // nil until there is a second piece
	over := make(chan struct{})   // closed when no more will come
	failed := make(chan error, 1) // how showing went
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
				err := s.drawn(ctx, pieces, over)
				if err != nil {
					broken()
				}
				failed <- err
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
	close(over)
	close(pieces)
	if err := <-failed; err != nil {
		return llm.Answer{}, err
	}
	return answer, err
}

// pace is how often a block is shown at most: eyes need no more, and a fast model
// does not have to wait. The first piece is shown at once.
const pace = 4 * time.Millisecond

// drawn shows pieces as they come. What comes in quick succession is shown
// together; over is closed when no more will come.
func (s *show) drawn(ctx context.Context, pieces <-chan llm.Delta, over <-chan struct{}) error {
	var next llm.Delta
	var text strings.Builder // of next
	shown := time.Now()      // the first piece
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
		// To be woken for every piece would cost more than to show them.
		if wait := pace - time.Since(shown); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-over:
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

func (s *show) write(ctx context.Context, d llm.Delta) error {
	if s.current == nil || s.current.kind != d.Kind || s.current.index != d.Index {
		s.current = s.block(d)
	}
	return s.current.Write(ctx, d.Text)
}

// block is the next block of the answer. An earlier try's block of the same kind
// is taken up, so that what was shown goes on.
func (s *show) block(d llm.Delta) *written {
	for _, w := range s.writers {
		if w.kind == d.Kind && !w.used {
			w.index, w.used = d.Index, true
			return w
		}
	}
	w := &written{kind: d.Kind, index: d.Index, used: true}
	n := strconv.Itoa(len(s.writers) + 1)
	if d.Kind == llm.DeltaThinking {
		w.Writer = s.part.Part("k" + n).Think()
	} else {
		w.Writer = s.part.Part("t" + n).Stream(false)
	}
	s.writers = append(s.writers, w)
	return w
}
