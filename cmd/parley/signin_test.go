package main

import (
	"log/slog"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/record"
	"github.com/parley-hq/parley/internal/servertest"
)

// TestLinkIsStoredAsUsedOnce: the second event about a link is refused.
func TestLinkIsStoredAsUsedOnce(t *testing.T) {
	s := servertest.Open(t, servertest.Options{})
	s.Serve(nil)
	log := signIns{&record.Logs[ignored]{Sessions: s.Sessions, New: func(string) ignored { return ignored{} }}}
	until := time.Now().Add(time.Minute)
	for i, want := range []bool{false, true, true} {
		if used, err := log.UseLink(t.Context(), "l1", until); err != nil || used != want {
			t.Errorf("use %d: %v, %v", i, used, err)
		}
	}
	for range 2 { // a sign-out may be repeated
		if err := log.SignOut(t.Context(), "c1", until); err != nil {
			t.Error(err)
		}
	}
}

func TestSignInsThatHaveEndedAreErased(t *testing.T) {
	s := servertest.Open(t, servertest.Options{})
	s.Serve(nil)
	log := signIns{&record.Logs[ignored]{Sessions: s.Sessions, New: func(string) ignored { return ignored{} }}}
	now := time.Now()
	ends := map[time.Time]chat.Code{now.Add(time.Hour): "", now.Add(-day): "", now.Add(-2 * day): chat.Gone, now.Add(-200 * day): chat.Gone}
	for until := range ends {
		if err := log.SignOut(t.Context(), "c"+until.String(), until); err != nil {
			t.Fatal(err)
		}
	}
	all := func(chat.SessionID) bool { return true }
	eraseSignIns(t.Context(), s.Sessions, func(chat.SessionID) bool { return false }, now, slog.Default())
	for until := range ends {
		if _, err := s.Sessions.Get(t.Context(), chat.Trusted, signInLog(until).ID); err != nil {
			t.Errorf("a node that does not own the session of %s has erased it: %v", until, err)
		}
	}
	eraseSignIns(t.Context(), s.Sessions, all, now, slog.Default())
	for until, want := range ends {
		if _, err := s.Sessions.Get(t.Context(), chat.Trusted, signInLog(until).ID); err != nil && chat.CodeOf(err) != want || err == nil && want != "" {
			t.Errorf("the session of sign-ins that end at %s: %v, want %q", until, err, want)
		}
	}
}
