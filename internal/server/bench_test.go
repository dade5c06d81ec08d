package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parley-hq/parley/internal/auth"
)

type discard struct{ h http.Header }

func (n discard) Header() http.Header         { return n.h }
func (n discard) Write(p []byte) (int, error) { return len(p), nil }
func (n discard) WriteHeader(int)             {}

// BenchmarkRules is what all rules together add to a request.
func BenchmarkRules(b *testing.B) {
	a, err := auth.New(auth.Options{})
	if err != nil {
		b.Fatal(err)
	}
	s, err := New(Options{Auth: a})
	if err != nil {
		b.Fatal(err)
	}
	s.Handle(Route{Pattern: "POST /sessions/{id}/events", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })})
	r, err := http.NewRequest(http.MethodPost, "http://localhost:8000/sessions/s-1/events", strings.NewReader("{}"))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	h := s.Handler()
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(discard{http.Header{}}, r)
	}
}
