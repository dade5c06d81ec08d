package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestArtifactsInABucketAreRefusedWithAReason(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	credentials := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(credentials, []byte("[default]\naws_access_key_id=a\naws_secret_access_key=b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*ServeCmd)
		want   string // "" means that it is accepted
	}{
		"accepted":            {func(*ServeCmd) {}, ""},
		"without a bucket":    {func(c *ServeCmd) { c.Artifacts, c.ClusterListen = "", "" }, ""},
		"single server":       {func(c *ServeCmd) { c.ClusterListen = "" }, "needs a cluster"},
		"no bucket":           {func(c *ServeCmd) { c.Artifacts = "/some/folder" }, "s3://BUCKET"},
		"bad endpoint":        {func(c *ServeCmd) { c.ArtifactsEndpoint = "files.example.com" }, "https://HOST"},
		"no credentials":      {func(c *ServeCmd) { c.ArtifactsCredentials = "" }, "AWS_ACCESS_KEY_ID"},
		"artifacts too large": {func(c *ServeCmd) { c.MaxArtifact = 6 << 30 }, "--max-artifact"},
		"files on disk": {func(c *ServeCmd) {
			if err := os.MkdirAll(filepath.Join(artifactDir(c.Data), "sessions", "ab"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "on disk"},
		"another bucket":  {func(c *ServeCmd) { writeBucket(t, c, "s3://other/prefix") }, "s3://other/prefix"},
		"the same bucket": {func(c *ServeCmd) { writeBucket(t, c, "s3://files/prefix") }, ""},
		"no bucket any more": {func(c *ServeCmd) {
			writeBucket(t, c, "s3://files/prefix")
			c.Artifacts = ""
		}, "--artifacts s3://files/prefix"},
	} {
		c2 := &ServeCmd{
			Data: t.TempDir(), ClusterListen: "127.0.0.1:7000", Artifacts: "s3://files/prefix", ArtifactsRegion: "us-east-1", ArtifactsCredentials: credentials, MaxArtifact: 1 << 30,
		}
		c.change(c2)
		err := c2.checkArtifacts()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func writeBucket(t *testing.T, c *ServeCmd, address string) {
	t.Helper()
	if err := os.WriteFile(bucketFile(c.Data), []byte(address+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}
