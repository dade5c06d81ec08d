package auth

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

// A full map has room for many after one look at all entries, and nobody loses a sign-in to somebody else's.
func TestOneActorWithManySignIns(t *testing.T) {
	until := time.Now().Add(time.Hour)
	s := &sharedSignIns{now: time.Now, out: map[string]time.Time{}, live: map[string]signIn{}}
	signIn := func(who string, n int) context.Context {
		c := chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: who}, SignIn: fmt.Sprint(who, n), Expires: until.Add(time.Duration(n) * time.Millisecond)}
		return s.signedIn(c)
	}
	alice := signIn("alice", 0)
	for n := range maxSignIns {
		signIn("mallory", n)
	}
	if n := len(s.live); n > maxSignIns-100 {
		t.Errorf("%d sign-ins are left", n)
	}
	if alice.Err() != nil || signIn("mallory", maxSignIns-1).Err() != nil {
		t.Error("the wrong ones were removed")
	}
}
