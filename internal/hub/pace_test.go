package hub

import (
	"testing"
	"testing/synctest"
	"time"
)

// readers lets n readers watch from now on.
func readers(t *testing.T, h *Hub, n int) []*watching {
	all := make([]*watching, n)
	for i := range all {
		all[i] = watch(t, h, "s", Start{}, &lines{})
	}
	return all
}

// got is how many batches with bytes in them the readers have had, and how many
// readers have the last event.
func got(all []*watching, last string) (batches, current int) {
	for _, x := range all {
		for _, b := range x.batches[1:] {
			if b.Cursor.String() != x.batches[0].Cursor.String() {
				batches++
			}
		}
		if x.batches[len(x.batches)-1].Cursor.String() == last {
			current++
		}
	}
	return batches, current
}

func TestManyReadersAreWokenAtOnceAfterASilence(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"))
		all := readers(t, h, 2*paceFrom)
		for seq := 2; seq < 5; seq++ {
			began := time.Now()
			w.publish(w.message("more"))
			synctest.Wait()
			if _, current := got(all, string(rune('0'+seq))); current != len(all) || time.Since(began) != 0 {
				t.Errorf("event %d reached %d of %d readers after %v", seq, current, len(all), time.Since(began))
			}
			time.Sleep(2 * paceMost)
		}
	})
}

func TestEntriesOfAPauseComeInOneBatch(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"))
		all := readers(t, h, 2*paceFrom)
		for range 5 { // the first wakes them, the others fall into the pause
			w.publish(w.message("more"))
			synctest.Wait()
		}
		time.Sleep(paceMost)
		synctest.Wait()
		batches, current := got(all, "6")
		if current != len(all) {
			t.Errorf("%d of %d readers have the last event", current, len(all))
		}
		if want := 2 * len(all); batches != want {
			t.Errorf("the readers had %d batches, want %d", batches, want)
		}
	})
}

func TestFewReadersAreNotPaced(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"))
		all := readers(t, h, paceFrom-1)
		for range 5 {
			w.publish(w.message("more"))
			synctest.Wait()
		}
		if batches, current := got(all, "6"); current != len(all) || batches != 5*len(all) {
			t.Errorf("%d batches, %d of %d readers have the last event", batches, current, len(all))
		}
	})
}

func TestSlowReaderDoesNotDelayTheOthers(t *testing.T) {
	withFakeClock(t, func(t *testing.T) {
		_, h, w := setup(Options{})
		w.publish(w.message("one"))
		all := readers(t, h, 2*paceFrom)
		hang := make(chan struct{})
		go func() {
			for b, err := range h.Watch(t.Context(), "s", Start{}, &lines{}) {
				if err == nil && len(b.Bytes) > 0 {
					<-hang
				}
			}
		}()
		synctest.Wait()
		for range 3 {
			w.publish(w.message("more"))
			synctest.Wait()
		}
		time.Sleep(paceLeast)
		synctest.Wait()
		if _, current := got(all, "4"); current != len(all) {
			t.Errorf("%d of %d readers have the last event", current, len(all))
		}
		close(hang)
	})
}
