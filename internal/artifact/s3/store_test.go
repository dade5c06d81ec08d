package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/artifact/s3/s3test"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a store in the bucket of a service.
func open(t *testing.T, url string, change func(*Options)) *Store {
	t.Helper()
	at, err := ParseLocation("s3://"+s3test.Bucket+"/some/prefix", url, "us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	local, err := artifact.Open(t.TempDir(), artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{
		Location: at, Credentials: Static(NewCredentials(s3test.KeyID, s3test.Secret, "")), Cluster: "c1", Received: local,
		Stall: 2 * time.Second, Pause: time.Millisecond,
	}
	if change != nil {
		change(&opt)
	}
	s := New(opt)
	t.Cleanup(s.Close)
	return s
}

func accept(artifact.Info) error { return nil }

func put(t *testing.T, s *Store, id chat.SessionID, data string) artifact.Info {
	t.Helper()
	info, err := s.Put(t.Context(), id, "a", "text/plain", strings.NewReader(data), 0, accept)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func read(t *testing.T, s *Store, id chat.SessionID, info artifact.Info) (string, error) {
	t.Helper()
	f, err := s.Get(t.Context(), id, info)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	return string(b), err
}

func TestBytesAreReadAsTheyWereStored(t *testing.T) {
	server := s3test.Start(t)
	s := open(t, server.URL, nil)
	for _, data := range []string{"", "one", strings.Repeat("0123456789", 100_000)} {
		info := put(t, s, "s", data)
		if got, err := read(t, s, "s", info); err != nil || got != data {
			t.Errorf("%d bytes, want %d: %v", len(got), len(data), err)
		}
		f, err := s.Get(t.Context(), "s", info)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int64{int64(len(data)), 0, int64(len(data) / 2), int64(len(data) / 3)} {
			if _, err := f.Seek(at, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(f)
			if err != nil || string(b) != data[at:] {
				t.Errorf("from %d of %d: %d bytes, %v", at, len(data), len(b), err)
			}
		}
		f.Close()
	}
}

func TestKeysHaveNothingThatAClientChooses(t *testing.T) {
	server := s3test.Start(t)
	s := open(t, server.URL, nil)
	info, err := s.Put(t.Context(), "the-session", "the/path.txt", "text/plain", strings.NewReader("data"), 0, accept)
	if err != nil {
		t.Fatal(err)
	}
	keys := server.Keys()
	if len(keys) != 1 || !strings.HasPrefix(keys[0], "some/prefix/c1/") || strings.Contains(keys[0], "the") {
		t.Errorf("%v", keys)
	}
	// An entry of the log that was made by hand does not lead out of the session's folder.
	for _, hash := range []string{"", "../" + info.SHA256, info.SHA256 + "/..", strings.Repeat("z", 64)} {
		bad := info
		bad.SHA256 = hash
		if _, err := s.Get(t.Context(), "the-session", bad); chat.CodeOf(err) != chat.Internal {
			t.Errorf("%q: %v", hash, err)
		}
	}
	// Another session, and another cluster, does not have the bytes.
	if _, err := s.Get(t.Context(), "another", info); chat.CodeOf(err) != chat.NotFound {
		t.Error(err)
	}
	other := open(t, server.URL, func(o *Options) { o.Cluster = "c2" })
	if _, err := other.Get(t.Context(), "the-session", info); chat.CodeOf(err) != chat.NotFound {
		t.Error(err)
	}
	if _, _, err := other.DeleteSession(t.Context(), "the-session"); err != nil || len(server.Keys()) != 1 {
		t.Error(server.Keys(), err)
	}
}

func TestEveryUploadAndCopyIsAnObject(t *testing.T) {
	server := s3test.Start(t)
	s := open(t, server.URL, func(o *Options) { o.Now = func() chat.At { return 1000 } })
	first, second := put(t, s, "s", "same"), put(t, s, "s", "same")
	copies, err := s.Copy(t.Context(), "s", "s", []artifact.Info{first, second}, accept)
	if err != nil || len(server.Keys()) != 4 {
		t.Fatal(server.Keys(), err)
	}
	for _, info := range []artifact.Info{first, second, copies[0]} {
		if err := s.Remove(t.Context(), "s", s.Key(info)); err != nil {
			t.Error(err)
		}
	}
	if err := s.Remove(t.Context(), "s", s.Key(first)); err != nil {
		t.Errorf("removed twice: %v", err)
	}
	if got, err := read(t, s, "s", copies[1]); got != "same" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if _, err := s.Copy(t.Context(), "s", "other", []artifact.Info{first}, accept); chat.CodeOf(err) != chat.NotFound {
		t.Errorf("a copy of removed bytes: %v", err)
	}
}

func TestOtherBytesAreNotServed(t *testing.T) {
	server := s3test.Start(t)
	s := open(t, server.URL, nil)
	info := put(t, s, "s", "the right bytes")
	server.Set(server.Keys()[0], []byte("the wrong bytes"))
	if got, err := read(t, s, "s", info); got == "the wrong bytes" || chat.CodeOf(err) != chat.Internal {
		t.Errorf("%q %v", got, err)
	}
	// A part is not served either.
	f, err := s.Get(t.Context(), "s", info)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(4, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Read(make([]byte, 5)); n > 0 || chat.CodeOf(err) != chat.Internal {
		t.Errorf("%d bytes, %v", n, err)
	}
	server.Set(server.Keys()[0], []byte("short"))
	if _, err := s.Get(t.Context(), "s", info); chat.CodeOf(err) != chat.Internal {
		t.Error(err)
	}
}

func TestBytesThatChangeWhileTheyAreReadAreAnError(t *testing.T) {
	server := s3test.Start(t)
	s := open(t, server.URL, nil)
	data := strings.Repeat("x", 1000)
	info := put(t, s, "s", data)
	f, err := s.Get(t.Context(), "s", info)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(500, io.SeekStart); err != nil { // the upload was compared, so parts can be read
		t.Fatal(err)
	}
	server.Set(server.Keys()[0], bytes.Repeat([]byte("y"), 1000))
	if n, err := f.Read(make([]byte, 100)); n > 0 || chat.CodeOf(err) != chat.Internal {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestRequestsAreRepeatedALimitedNumberOfTimes(t *testing.T) {
	server := s3test.Start(t)
	s := open(t, server.URL, nil)
	left := 2
	server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if left == 0 {
			return false
		}
		left--
		if left != 0 {
			s3test.Error(w, http.StatusServiceUnavailable, "SlowDown")
			return true
		}
		panic(http.ErrAbortHandler) // the connection is lost
	})
	info := put(t, s, "s", "data")
	if calls := server.Calls(); calls != "PUT PUT PUT" {
		t.Error(calls)
	}
	left = -1
	_, err := read(t, s, "s", info)
	if calls := server.Calls(); chat.CodeOf(err) != chat.Unavailable || calls != "HEAD HEAD HEAD" {
		t.Error(calls, err)
	}
	server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		s3test.Error(w, http.StatusForbidden, "SignatureDoesNotMatch")
		return true
	})
	_, err = s.Put(t.Context(), "s", "a", "", strings.NewReader("x"), 0, accept)
	if calls := server.Calls(); chat.CodeOf(err) != chat.Unavailable || calls != "PUT" {
		t.Error(calls, err)
	}
}

func TestASlowServiceIsUnavailable(t *testing.T) {
	server := s3test.Start(t)
	s := open(t, server.URL, func(o *Options) { o.Stall, o.Tries = 50*time.Millisecond, 2 })
	info := put(t, s, "s", "data")
	server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet { // the headers, and then nothing
			w.Header().Set("Content-Length", "4")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return true
	})
	if _, err := s.Put(t.Context(), "s", "b", "", strings.NewReader("data"), 0, accept); chat.CodeOf(err) != chat.Unavailable || strings.Contains(err.Error(), "http:") {
		t.Error(err)
	}
	if _, err := read(t, s, "s", info); chat.CodeOf(err) != chat.Unavailable {
		t.Error(err)
	}
	if _, _, err := s.DeleteSession(t.Context(), "s"); chat.CodeOf(err) != chat.Unavailable {
		t.Error(err)
	}
	o := &object{ctx: t.Context(), store: s, key: server.Keys()[0], info: info}
	if _, err := o.Read(make([]byte, 4)); chat.CodeOf(err) != chat.Unavailable {
		t.Error(err)
	}
}

func TestAReadContinuesAfterALostConnection(t *testing.T) {
	server := s3test.Start(t)
	s := open(t, server.URL, nil)
	data := strings.Repeat("0123456789", 50_000)
	info := put(t, s, "s", data)
	server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			return false
		}
		at := 0
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &at)
		w.Header().Set("Content-Length", fmt.Sprint(len(data)-at))
		if at > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, len(data)-1, len(data)))
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = io.WriteString(w, data[at:min(at+100_000, len(data))])
		_ = http.NewResponseController(w).Flush()
		if at+100_000 < len(data) {
			panic(http.ErrAbortHandler)
		}
		return true
	})
	if got, err := read(t, s, "s", info); err != nil || got != data {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	var mu sync.Mutex
	reached := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		reached++
	}))
	defer other.Close()
	server := s3test.Start(t)
	s := open(t, server.URL, nil)
	info := put(t, s, "s", "data")
	server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	})
	if _, err := read(t, s, "s", info); chat.CodeOf(err) != chat.Unavailable {
		t.Error(err)
	}
	if _, err := s.Put(t.Context(), "s", "b", "", strings.NewReader("data"), 0, accept); chat.CodeOf(err) != chat.Unavailable {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if reached > 0 {
		t.Errorf("%d requests reached the other host", reached)
	}
}

func TestCredentialsAreNotInErrorsAndLogs(t *testing.T) {
	server := s3test.Start(t)
	var log bytes.Buffer
	s := open(t, server.URL, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.Credentials = Static(NewCredentials("another-id", s3test.Secret, "the-session-token"))
	})
	_, err := s.Put(t.Context(), "s", "a", "", strings.NewReader("x"), 0, accept)
	c, _ := s.opt.Credentials()
	all := fmt.Sprintf("%v %+v %#v %v %v %s", err, errors.Unwrap(err), c, c, &c, log.String())
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "credentials", c)
	all += log.String()
	if !strings.Contains(all, "AccessDenied") {
		t.Error("the log does not say why: ", all)
	}
	for _, secret := range []string{s3test.Secret, "another-id", "the-session-token", s3test.KeyID, "Signature="} {
		if strings.Contains(all, secret) {
			t.Errorf("%q is in %s", secret, all)
		}
	}
}

func TestErasedSessionHasNoObjectsEvenOfRunningUploads(t *testing.T) {
	server := s3test.Start(t)
	s := open(t, server.URL, nil)
	for n := range 20 {
		put(t, s, "s", fmt.Sprint(n))
	}
	keep := put(t, s, "other", "data")
	server.Set(s.folder("s")+"left-by-a-killed-node", []byte("x"))
	// One upload has sent its body and waits for the answer, one has not begun to send.
	arrived, answer := make(chan struct{}), make(chan struct{})
	server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && r.ContentLength == 5 {
			close(arrived)
			<-answer
		}
		return false
	})
	var wait sync.WaitGroup
	wait.Go(func() {
		_, _ = s.Put(context.Background(), "s", "a", "", strings.NewReader("12345"), 0, accept) // stored or not, it is removed
	})
	<-arrived
	taken := make(chan struct{})
	wait.Go(func() {
		_, err := s.Put(context.Background(), "s", "b", "", strings.NewReader("123456"), 0, func(artifact.Info) error {
			close(taken)
			for !s.isErased("s") {
				time.Sleep(time.Millisecond)
			}
			return nil
		})
		if chat.CodeOf(err) != chat.Gone {
			t.Error(err)
		}
	})
	<-taken
	erased := make(chan error, 1)
	go func() {
		_, _, err := s.DeleteSession(context.Background(), "s")
		erased <- err
	}()
	for !s.isErased("s") {
		time.Sleep(time.Millisecond)
	}
	close(answer)
	if err := <-erased; err != nil {
		t.Error(err)
	}
	wait.Wait()
	for _, key := range server.Keys() {
		if strings.HasPrefix(key, s.folder("s")) {
			t.Errorf("%s is left", key)
		}
	}
	if got, err := read(t, s, "other", keep); got != "data" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

// isErased reports whether an erasure has told a running upload.
func (s *Store) isErased(id chat.SessionID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for u := range s.uploads[id] {
		if u.gone() {
			return true
		}
	}
	return false
}

func TestDeletionFailsWhenTheServiceListsOtherObjects(t *testing.T) {
	server := s3test.Start(t)
	s := open(t, server.URL, nil)
	put(t, s, "s", "data")
	server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			t.Error("an object of another folder is removed")
		}
		fmt.Fprint(w, "<ListBucketResult><Contents><Key>somewhere/else</Key></Contents></ListBucketResult>")
		return true
	})
	if _, _, err := s.DeleteSession(t.Context(), "s"); chat.CodeOf(err) != chat.Unavailable {
		t.Error(err)
	}
}
