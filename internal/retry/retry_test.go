package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-hq/parley/chat"
)

var errChanged = chat.Errorf(chat.Conflict, "the session has changed").WithReason(chat.SessionChanged)

func TestADecisionIsRepeatedUntilTheSessionDoesNotChange(t *testing.T) {
	other := errors.New("another error")
	for _, test := range []struct {
		changes int
		want    error
		atMost  time.Duration
	}{
		{0, nil, 0},
		{0, other, 0},
		{atOnce, nil, 0},
		{atOnce, other, 0},
		{atOnce + 3, nil, 7 * time.Millisecond}, // bounds of 1, 2 and 4 ms
		{100, nil, 100 * maxPause},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin, calls := time.Now(), 0
			err := WhileChanged(t.Context(), func() error {
				if calls++; calls <= test.changes {
					return errChanged
				}
				return test.want
			})
			took := time.Since(begin)
			if !errors.Is(err, test.want) || calls != test.changes+1 || took > test.atMost {
				t.Errorf("%d changes, then %v: %v after %d calls and %v", test.changes, test.want, err, calls, took)
			}
			if test.changes > atOnce && took == 0 {
				t.Errorf("%d repetitions without a pause", test.changes)
			}
		})
	}
}

func TestPausesAreRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := map[time.Duration]bool{}
		for range 10 {
			begin, calls := time.Now(), 0
			if err := WhileChanged(t.Context(), func() error {
				if calls++; calls < 20 {
					return errChanged
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			took[time.Since(begin)] = true
		}
		if len(took) < 2 {
			t.Errorf("two callers that begin at the same time pause equally: %v", took)
		}
	})
}

func TestRepetitionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := WhileChanged(t.Context(), func() error { return errChanged }); !errors.Is(err, errChanged) {
			t.Errorf("the error is %v", err)
		}
		if took := time.Since(begin); took < maxTime || took > maxTime+maxPause {
			t.Errorf("it took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin = time.Now()
		if err := WhileChanged(ctx, func() error { return errChanged }); !errors.Is(err, errChanged) {
			t.Errorf("the error is %v", err)
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("it took %v after its context had ended", took)
		}
	})
}
