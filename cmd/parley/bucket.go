package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/artifact/s3"
)

// checkArtifacts refuses settings of a bucket with which the server cannot work, and data folders whose files are elsewhere.
func (c *ServeCmd) checkArtifacts() error {
	was, err := usedBucket(c.Data)
	if err != nil {
		return err
	}
	if c.Artifacts == "" {
		if was != "" {
			return fmt.Errorf("the artifacts of this data folder are in %s: start the server with --artifacts %[1]s", was)
		}
		return nil
	}
	if !c.clustered() {
		return errors.New("--artifacts needs a cluster (--cluster-listen and --cluster-peers): a single server keeps artifacts in its data folder")
	}
	if c.MaxArtifact > s3.MaxSize {
		return fmt.Errorf("--max-artifact is at most %d with --artifacts", int64(s3.MaxSize))
	}
	at, err := s3.ParseLocation(c.Artifacts, c.ArtifactsEndpoint, c.ArtifactsRegion)
	if err != nil {
		return fmt.Errorf("--artifacts: %w", err)
	}
	if was != "" && was != at.String() {
		return fmt.Errorf("the artifacts of this data folder are in %s, not in %s", was, at)
	}
	if was == "" {
		switch there, err := hasFiles(c.Data); {
		case err != nil:
			return err
		case there:
			return errors.New("this data folder has artifacts on disk, which the server cannot move to a bucket: start it without --artifacts, or with a new data folder")
		}
	}
	if _, err := c.bucketCredentials()(); err != nil {
		return fmt.Errorf("--artifacts: %w", err)
	}
	return nil
}

// hasFiles reports whether there are files of sessions on disk.
func hasFiles(data string) (bool, error) {
	entries, err := os.ReadDir(filepath.Join(artifactDir(data), "sessions"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(entries) > 0, err
}

// bucketCredentials returns the credentials of the bucket: the environment's, or those of the file.
func (c *ServeCmd) bucketCredentials() s3.CredentialSource {
	id, secret := os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY")
	switch {
	case id != "" && secret != "":
		return s3.Static(s3.NewCredentials(id, secret, os.Getenv("AWS_SESSION_TOKEN")))
	case c.ArtifactsCredentials != "":
		return s3.FromFile(c.ArtifactsCredentials, cmp.Or(os.Getenv("AWS_PROFILE"), "default"))
	}
	return func() (s3.Credentials, error) {
		return s3.Credentials{}, errors.New("the bucket needs credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or --artifacts-credentials")
	}
}

// bucketFile has the address of the bucket with the files of this data folder.
func bucketFile(data string) string { return filepath.Join(data, "artifacts-location") }

// usedBucket returns the address of the bucket that a data folder uses, "" if it uses none.
func usedBucket(data string) (string, error) {
	b, err := os.ReadFile(bucketFile(data))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(b)), err
}

// openBucket returns the store of bytes that all nodes share, or nil.
func (p *parley) openBucket() (artifact.Blobs, error) {
	if p.cfg.Artifacts == "" {
		return nil, nil
	}
	at, err := s3.ParseLocation(p.cfg.Artifacts, p.cfg.ArtifactsEndpoint, p.cfg.ArtifactsRegion)
	if err != nil {
		return nil, err
	}
	if !at.Encrypted() {
		p.log.Warn("--artifacts-endpoint: the bytes of artifacts are sent without encryption", "endpoint", at.Endpoint.String())
	}
	if err := os.WriteFile(bucketFile(p.cfg.Data), []byte(at.String()+"\n"), 0o600); err != nil {
		return nil, err
	}
	store := s3.New(s3.Options{Location: at, Credentials: p.cfg.bucketCredentials(), Cluster: p.clusterID, Received: p.local, Logger: p.log})
	p.runs = append(p.runs, func(ctx context.Context) error {
		defer store.Close()
		p.checkBucket(ctx, store)
		<-ctx.Done()
		return nil
	})
	return store, nil
}

// checkBucket logs what is wrong with the bucket. A server whose bucket cannot be reached starts all the same.
func (p *parley) checkBucket(ctx context.Context, store *s3.Store) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	versions, err := store.Check(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		p.log.Error("the bucket of artifacts cannot be used; uploads are refused until it can", "location", p.cfg.Artifacts, "err", err)
	case versions:
		p.log.Warn("the bucket of artifacts has versioning: it keeps the bytes of removed artifacts and of erased sessions; switch versioning off, or add a rule that removes old versions", "location", p.cfg.Artifacts)
	}
}
