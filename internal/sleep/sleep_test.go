package sleep

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestForWaitsOrReturnsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := For(t.Context(), time.Minute); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		ended := errors.New("ended")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(ended) })
		begin = time.Now()
		if err := For(ctx, time.Hour); !errors.Is(err, ended) || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		if err := For(ctx, 0); !errors.Is(err, ended) {
			t.Errorf("%v without a time", err)
		}
	})
}
