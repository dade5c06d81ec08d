package vertesia

import (
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
)

// uploadURL starts a server with a run of alice, and returns the signed address of a file to upload.
func uploadURL(t *testing.T, change func(*Options)) (w *testServer, address string) {
	w = newServer(t, setup{secured: true, change: change})
	id := w.start("hello", true, "Authorization", "Bearer "+keyOf("alice"))
	var got struct{ URL string }
	w.ok("PUT", "/api/v1/agents/"+id+"/artifacts/files/a.txt", "", &got, "Authorization", "Bearer "+keyOf("alice"), "Content-Type", "application/json")
	u, err := url.Parse(got.URL)
	if err != nil {
		t.Fatal(err)
	}
	return w, w.HTTP.URL + u.RequestURI()
}

// An upload by a signed address needs no credential, but ends with the one that asked for the address.
func TestSignedUploadEndsWithItsCredential(t *testing.T) {
	begun := make(chan struct{}, 1)
	w, address := uploadURL(t, func(o *Options) {
		o.Allow = func(c chat.Caller, _ int) error {
			if c.Actor.ID == "alice" {
				begun <- struct{}{}
			}
			return nil
		}
	})
	body, more := io.Pipe()
	defer more.Close()
	r, err := http.NewRequestWithContext(t.Context(), "PUT", address, body)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = more.Write([]byte("the first half")) // the test says what failed
		<-begun
		if err := w.Auth.SetTokens([]auth.Token{token("bob")}); err != nil {
			t.Error(err)
		}
	}()
	res, err := w.HTTP.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("%d %s", res.StatusCode, b)
	}
}

// Requests by signed addresses count as requests of the caller who asked for the address.
func TestSignedRequestsAreLimited(t *testing.T) {
	w, address := uploadURL(t, func(o *Options) {
		o.Allow = func(c chat.Caller, n int) error {
			if c.Actor.ID != "alice" || n != 1 {
				t.Errorf("%d requests of %s", n, c.Actor.ID)
			}
			return chat.Errorf(chat.SlowDown, "too many")
		}
	})
	r, err := http.NewRequestWithContext(t.Context(), "PUT", address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := w.HTTP.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusTooManyRequests {
		t.Error(res.Status)
	}
}
