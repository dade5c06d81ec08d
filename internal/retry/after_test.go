package retry

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestAfterReadsSecondsAndTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for value, want := range map[string]time.Duration{
			"0": 0, "7": 7 * time.Second, "0.5": 500 * time.Millisecond, "1e300": maxAfter, "Inf": maxAfter,
			time.Now().Add(time.Hour).UTC().Format(http.TimeFormat):  time.Hour,
			time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat): 0,
		} {
			if wait, ok := After(http.Header{"Retry-After": {value}}); !ok || wait != want {
				t.Errorf("%q: %v, %v, want %v", value, wait, ok, want)
			}
		}
		for _, value := range []string{"", "-1", "NaN", "soon"} {
			if wait, ok := After(http.Header{"Retry-After": {value}}); ok || wait != 0 {
				t.Errorf("%q: %v, %v", value, wait, ok)
			}
		}
	})
}
