package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// A client notices nothing when one server ends and another one takes its place.
func TestServersShareAnAddressOneAfterTheOther(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shared := shareListener(l)
	defer shared.Close()
	for i := range 3 {
		got := make(chan string, 1)
		go func() { // it may come before the server
			res, err := http.Get("http://" + l.Addr().String())
			if err != nil {
				got <- err.Error()
				return
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			got <- fmt.Sprint(string(b), err)
		}()
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, i) })}
		s.SetKeepAlivesEnabled(false)
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(shared.borrow()) }()
		if text := <-got; text != fmt.Sprint(i, "<nil>") {
			t.Errorf("server %d answers %s", i, text)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-ended
	}
}
