package s3

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLocationIsBucketPrefixAndEndpoint(t *testing.T) {
	for _, c := range []struct{ in, endpoint, bucket, prefix, url string }{
		{"s3://files", "", "files", "", "https://s3.eu-west-1.amazonaws.com"},
		{"s3://files/a/b/", "https://minio.example.com:9000/", "files", "a/b", "https://minio.example.com:9000"},
		{"s3://my.files", "http://127.0.0.1:9000/path", "my.files", "", "http://127.0.0.1:9000/path"},
	} {
		l, err := ParseLocation(c.in, c.endpoint, "eu-west-1")
		if err != nil || l.Bucket != c.bucket || l.Prefix != c.prefix || l.Endpoint.String() != c.url || !l.Encrypted() {
			t.Errorf("%s: %+v %v", c.in, l, err)
		}
	}
	if _, err := ParseLocation("s3://"+strings.Repeat("b", 63), "", strings.Repeat("r", 40)); err != nil {
		t.Error(err)
	}
	if l, err := ParseLocation("s3://files", "http://minio.example.com", "r"); err != nil || l.Encrypted() {
		t.Error(l, err)
	}
	for _, c := range []struct{ in, endpoint, region string }{
		{"files", "", "r"}, {"s3://", "", "r"}, {"s3://F", "", "r"}, {"s3://files/../x", "", "r"}, {"s3://files//x", "", "r"}, {"s3://files/a b", "", "r"},
		{"s3://files", "ftp://x", "r"}, {"s3://files", "https://user:hunter2@x", "r"}, {"s3://files", "https://x?y", "r"}, {"s3://files", "", "r.evil.example/"},
		{"s3://ab", "", "r"}, {"s3://" + strings.Repeat("b", 64), "", "r"}, {"s3://files", "", strings.Repeat("r", 41)},
	} {
		if l, err := ParseLocation(c.in, c.endpoint, c.region); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %v %v", c, l, err)
		}
	}
}

func TestCredentialsFileIsReadAgainWhenItChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	write := func(text string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	from := FromFile(file, "default")
	if _, err := from(); err == nil {
		t.Error("no file, no error")
	}
	write("[other]\naws_access_key_id = x\naws_secret_access_key = y\n[default]\naws_access_key_id=one\naws_secret_access_key = a=b\n", time.Unix(1000, 0))
	if c, err := from(); err != nil || c != NewCredentials("one", "a=b", "") {
		t.Error(err)
	}
	write("[default]\n# comment\naws_access_key_id=two\naws_secret_access_key=s\naws_session_token=t\n", time.Unix(2000, 0))
	if c, err := from(); err != nil || c != NewCredentials("two", "s", "t") {
		t.Error(err)
	}
	write("[default]\naws_secret_access_key=hunter2\n", time.Unix(3000, 0))
	if _, err := from(); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
	write("[other]\n", time.Unix(4000, 0))
	if _, err := from(); err == nil || !strings.Contains(err.Error(), "default") {
		t.Error(err)
	}
}
