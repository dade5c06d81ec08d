package natslog

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A stream that does not listen to the subject of the log stands for one whose leader is stuck.
func TestALeaderThatAcceptsNothingIsReplaced(t *testing.T) {
	t.Parallel() // it waits for elections
	logs, _ := three(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l := logs[0]
	appendAll(t, l, 0, 1)
	before, err := l.Status(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.watchdog.patience, l.watchdog.rest = 50*time.Millisecond, time.Second
	cfg := l.config(0)
	cfg.Subjects = []string{"elsewhere"}
	cfg.RePublish.Source = "elsewhere"
	if _, err := l.js.UpdateStream(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	for {
		once, cancel := context.WithTimeout(ctx, time.Second)
		err := l.Append(once, 0, []byte("x"))
		cancel()
		if err == nil {
			t.Fatal("a stream that does not listen has stored a frame")
		}
		if after, err := l.Status(ctx, 0); err == nil && after.Leader != "" && after.Leader != before.Leader {
			return
		}
		if !sleep(ctx, 20*time.Millisecond) {
			t.Fatal("the leader was not replaced")
		}
	}
}

func TestOneFailedAppendReplacesNoLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchdog(1)
		for range 5 {
			if w.appended(0, false) || w.appended(0, true) {
				t.Fatal("the watchdog acts after one failure")
			}
			time.Sleep(w.patience)
		}
		w.appended(0, false)
		time.Sleep(w.patience)
		if !w.appended(0, false) {
			t.Error("the watchdog does not act")
		}
		if w.appended(0, false) {
			t.Error("the watchdog acts twice in a row")
		}
	})
}
