package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestBenchMeasuresAndCleansUp(t *testing.T) {
	launch(t, filepath.Join(t.TempDir(), "data"))
	out := succeed(t, "", "bench", "--writers", "2", "--readers", "3", "--batch", "4", "--span", "100ms")
	for _, want := range []string{"HTTP request, 2 writers", "arrays of 4", "WebSocket frame", "3 readers over WebSocket", "3 readers over SSE", "append to seen"} {
		if !strings.Contains(out, want) {
			t.Errorf("no line about %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, " 0 events/s") || strings.Contains(out, " 0 deliveries/s") {
		t.Errorf("nothing was measured:\n%s", out)
	}
	if left := succeed(t, "", "sessions", "--json"); left != "" {
		t.Errorf("sessions were left behind:\n%s", left)
	}
	if code, _, errs := cli(t, "", "bench", "--batch", "0"); code != exitUsage || !strings.Contains(errs, "--batch") {
		t.Errorf("a batch of 0 events: %d %s", code, errs)
	}
}
