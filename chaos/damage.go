package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// damages damages one file of a copy of the data folder, starts a server on the
// copy, and repeats that until its time is over. The server must refuse to start
// and name the file, or report the damage, or serve everything unchanged.
func (c *campaign) damages(ctx context.Context) error {
	whole, err := c.try(ctx, c.data, "")
	if err != nil {
		return err
	}
	if whole.content == "" {
		return fmt.Errorf("the undamaged folder cannot be served: %s", whole.printed)
	}
	var files []string
	err = filepath.WalkDir(c.data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, rerr := filepath.Rel(c.data, path)
			files, err = append(files, name), rerr
		}
		return err
	})
	if err != nil {
		return err
	}
	copied := filepath.Join(c.dir, "damaged")
	for end := time.Now().Add(c.damage); time.Now().Before(end) && ctx.Err() == nil; {
		if err := errors.Join(os.RemoveAll(copied), os.CopyFS(copied, os.DirFS(c.data))); err != nil {
			return err
		}
		name := files[c.random.IntN(len(files))]
		kind, err := c.harm(copied, name)
		if err != nil {
			return err
		}
		if kind == "" {
			continue
		}
		got, err := c.try(ctx, copied, name)
		if err != nil {
			return err
		}
		n := &c.counts
		n.damaged++
		switch {
		case got.refused && strings.Contains(got.printed, filepath.Base(name)):
			n.refused++
		case got.refused:
			n.fail(&n.silent, "%s, %s: the server refuses to start without naming the file: %s", name, kind, got.printed)
		case got.reported:
			n.reported++
		case got.content == whole.content:
			n.harmless++
		default:
			n.fail(&n.silent, "%s, %s: data is missing, and neither the start nor verify says so: %s", name, kind, got.printed)
		}
	}
	return ctx.Err()
}

// harm damages a file below dir in one of five ways and returns which. It returns
// "" when that way would not change the file.
func (c *campaign) harm(dir, name string) (kind string, err error) {
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	kinds := []string{"flipped", "cut", "emptied", "deleted", "older"}
	kind = kinds[c.random.IntN(len(kinds))]
	if len(b) == 0 && kind != "deleted" {
		return "", nil
	}
	switch kind {
	case "flipped":
		b[c.random.IntN(len(b))] ^= 1 << c.random.IntN(8)
	case "cut":
		b = b[:c.random.IntN(len(b))]
	case "emptied":
		b = nil
	case "deleted":
		return kind, os.Remove(path)
	case "older":
		old, err := os.ReadFile(filepath.Join(c.older(), name))
		if errors.Is(err, fs.ErrNotExist) || err == nil && slices.Equal(old, b) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		b = old
	}
	return kind, os.WriteFile(path, b, 0o600)
}

// outcome is what a server did with a folder.
type outcome struct {
	refused  bool   // it did not start
	reported bool   // it, or verify, named damage
	content  string // a digest of everything it serves; "" when something could not be read
	printed  string
}

func (c *campaign) try(ctx context.Context, data, damaged string) (outcome, error) {
	at, err := newLocation(data)
	if err != nil {
		return outcome{}, err
	}
	s, err := c.launch(at)
	if err != nil {
		return outcome{}, err
	}
	defer s.Kill()
	_, ok, err := s.WaitReady(ctx, "/readyz")
	if err != nil {
		return outcome{}, fmt.Errorf("%s: %w", damaged, err)
	}
	if !ok {
		return outcome{refused: true, printed: s.Output()}, nil
	}
	said, whole := c.verify(ctx, at.url())
	content, err := serves(ctx, at.url())
	out := outcome{reported: !whole || err != nil, content: content, printed: s.Output() + said}
	if damaged != "" && strings.Contains(s.Output(), filepath.Base(damaged)) {
		out.reported = true
	}
	return out, nil
}

// serves returns a digest of all sessions, events and files of a server.
func serves(ctx context.Context, url string) (string, error) {
	c, err := client.New(client.Options{URL: url, Retries: -1})
	if err != nil {
		return "", err
	}
	defer c.Close()
	var ids []chat.SessionID
	for s, err := range c.Sessions(ctx, client.SessionQuery{}) {
		if err != nil {
			return "", err
		}
		ids = append(ids, s.ID)
	}
	slices.Sort(ids)
	sum := sha256.New()
	for _, id := range ids {
		if _, err := c.Export(ctx, id, sum, nil); err != nil {
			return "", err
		}
		files, err := c.Artifacts(ctx, id)
		if err != nil {
			return "", err
		}
		for _, f := range files {
			fmt.Fprintln(sum, id, f.Path)
			body, _, err := c.Download(ctx, id, f.Path)
			if err != nil {
				return "", err
			}
			_, err = io.Copy(sum, body)
			body.Close()
			if err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}
