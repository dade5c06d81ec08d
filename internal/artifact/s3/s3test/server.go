// Package s3test has an S3 service in memory that fails when a test wants it to.
package s3test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Bucket is the name of the only bucket.
const Bucket = "test-bucket"

// The only credentials.
const (
	KeyID  = "key-id-of-the-test"
	Secret = "secret-key-of-the-test"
)

// Server is a service with one bucket.
type Server struct {
	*httptest.Server

	mu      sync.Mutex
	objects map[string][]byte
	fault   func(w http.ResponseWriter, r *http.Request) bool
	calls   []string
}

// Start starts a server until the test ends.
func Start(t *testing.T) *Server {
	s := &Server{objects: map[string][]byte{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// Fail calls f for every request; when f returns true it has answered. nil ends it.
func (s *Server) Fail(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Keys returns the keys of all objects.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Set changes an object.
func (s *Server) Set(key string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = data
}

// Calls returns the methods of the requests so far and forgets them.
func (s *Server) Calls() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := strings.Join(s.calls, " ")
	s.calls = nil
	return calls
}

// Error answers with an error of S3.
func Error(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	// Real services repeat the id of the key and what was signed.
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>refused</Message><AWSAccessKeyId>%s</AWSAccessKeyId></Error>", code, KeyID)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	fault := s.fault
	s.calls = append(s.calls, r.Method)
	s.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	key, inBucket := strings.CutPrefix(r.URL.Path, "/"+Bucket)
	key = strings.TrimPrefix(key, "/")
	auth := r.Header.Get("Authorization")
	switch {
	case !strings.HasPrefix(auth, "AWS4-HMAC-SHA256 Credential="+KeyID+"/") || !strings.Contains(auth, "x-amz-content-sha256"):
		Error(w, http.StatusForbidden, "AccessDenied")
	case !inBucket:
		Error(w, http.StatusNotFound, "NoSuchBucket")
	case key == "" && r.URL.Query().Has("versioning"):
		fmt.Fprint(w, `<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"/>`)
	case key == "":
		s.list(w, r)
	case r.Method == http.MethodPut && r.Header.Get("X-Amz-Copy-Source") != "":
		s.copy(w, key, strings.TrimPrefix(r.Header.Get("X-Amz-Copy-Source"), "/"+Bucket+"/"))
	case r.Method == http.MethodPut:
		s.put(w, r, key)
	case r.Method == http.MethodDelete:
		s.mu.Lock()
		delete(s.objects, key)
		s.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	default:
		s.get(w, r, key)
	}
}

func (s *Server) put(w http.ResponseWriter, r *http.Request, key string) {
	data, err := io.ReadAll(r.Body)
	sum := sha256.Sum256(data)
	switch {
	case err != nil || int64(len(data)) != r.ContentLength:
		Error(w, http.StatusBadRequest, "IncompleteBody")
		return
	case hex.EncodeToString(sum[:]) != r.Header.Get("X-Amz-Content-Sha256"):
		Error(w, http.StatusBadRequest, "XAmzContentSHA256Mismatch")
		return
	}
	s.Set(key, data)
	w.Header().Set("ETag", etag(data))
}

func (s *Server) copy(w http.ResponseWriter, to, from string) {
	s.mu.Lock()
	data, ok := s.objects[from]
	if ok {
		s.objects[to] = data
	}
	s.mu.Unlock()
	if !ok {
		Error(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	fmt.Fprintf(w, "<CopyObjectResult><ETag>%s</ETag></CopyObjectResult>", etag(data))
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, key string) {
	s.mu.Lock()
	data, ok := s.objects[key]
	s.mu.Unlock()
	if !ok {
		Error(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	w.Header().Set("ETag", etag(data))
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	type object struct {
		Key  string
		Size int
	}
	limit, _ := strconv.Atoi(r.URL.Query().Get("max-keys")) // 0 lists nothing
	var page struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []object
	}
	for _, key := range s.Keys() {
		if strings.HasPrefix(key, r.URL.Query().Get("prefix")) && len(page.Contents) < limit {
			s.mu.Lock()
			page.Contents = append(page.Contents, object{key, len(s.objects[key])})
			s.mu.Unlock()
		}
	}
	b, err := xml.Marshal(page)
	if err != nil {
		Error(w, http.StatusInternalServerError, "InternalError")
		return
	}
	_, _ = w.Write(b) // the client may have gone away
}

func etag(data []byte) string {
	sum := sha256.Sum256(data)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}
