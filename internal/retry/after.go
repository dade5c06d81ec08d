package retry

import (
	"net/http"
	"strconv"
	"time"
)

// maxAfter bounds the result of After.
const maxAfter = 365 * 24 * time.Hour

// After returns the wait that the header Retry-After of a response asks for, a number of seconds or a time. ok is false if there is
// none, or none that can be read.
func After(h http.Header) (wait time.Duration, ok bool) {
	value := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(value, 64); err == nil && s >= 0 {
		return time.Duration(min(s, maxAfter.Seconds()) * float64(time.Second)), true
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(0, time.Until(at)), maxAfter), true
	}
	return 0, false
}
