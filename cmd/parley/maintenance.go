package main

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sealed"
)

// backupPrefix is the prefix of the folder into which a backup copies the store.
const backupPrefix = "backup-tmp-"

// removeBackupCopies removes the copies of backups that were killed. Otherwise they would keep the text of erased sessions.
func removeBackupCopies(data string) error {
	entries, err := os.ReadDir(data)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), backupPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(data, entry.Name())))
		}
	}
	return err
}

// backup writes a tar of the store and the artifacts, which restore unpacks. The store is copied first. An artifact is
// stored before its event, so every artifact that an event of the copy names is in the tar; artifacts that are stored
// during the backup may be in it.
func (p *parley) backup(ctx context.Context, w io.Writer) (err error) {
	tmp, err := os.MkdirTemp(p.cfg.Data, backupPrefix)
	if err != nil {
		return fmt.Errorf("make a folder for the copy: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	copied := filepath.Join(tmp, "store")
	if err := p.journal.Backup(ctx, copied); err != nil {
		return err
	}
	out := tar.NewWriter(w)
	if err := tarFolder(ctx, out, copied, "store"); err != nil {
		return err
	}
	err = p.local.Walk(ctx, func(e artifact.Entry) error {
		head := &tar.Header{Name: "artifacts/" + e.Path, Mode: 0o600, Size: e.Size, ModTime: time.Now()}
		if e.SameAs != "" {
			head.Typeflag, head.Linkname, head.Size = tar.TypeLink, "artifacts/"+e.SameAs, 0
			return out.WriteHeader(head)
		}
		if err := out.WriteHeader(head); err != nil {
			return err
		}
		_, err := io.Copy(out, e.Body())
		return err
	})
	if err != nil {
		return err
	}
	// The manifest is the last entry: a tar without it is not complete.
	about, err := json.Marshal(map[string]any{"version": version, "made_at": time.Now().UTC()})
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Name: "manifest.json", Mode: 0o600, Size: int64(len(about)), ModTime: time.Now()}); err != nil {
		return err
	}
	if _, err := out.Write(about); err != nil {
		return err
	}
	return out.Close()
}

// tarFolder adds the files of a folder to a tar.
func tarFolder(ctx context.Context, out *tar.Writer, dir, name string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return errors.Join(err, ctx.Err())
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		head := &tar.Header{Name: name + "/" + filepath.ToSlash(rel), Mode: 0o600, Size: info.Size(), ModTime: info.ModTime()}
		if err := out.WriteHeader(head); err != nil {
			return err
		}
		_, err = io.Copy(out, f)
		return err
	})
}

// verifyLine is one line of the answer of a verification: its progress or its result.
type verifyLine struct {
	Sessions uint64   `json:"sessions"`
	Events   uint64   `json:"events"`
	Done     bool     `json:"done"`
	Found    uint64   `json:"found,omitempty"` // number of problems
	Problems []string `json:"problems,omitempty"`
}

// verify checks the store and the artifacts and reports the progress with line.
func (p *parley) verify(ctx context.Context, line func(v any) error) error {
	last := time.Now()
	var broken error
	problems, report, err := findDamage(ctx, p.journal, p.local, p.cfg.Data, func(v journal.VerifyProgress) {
		if time.Since(last) > 200*time.Millisecond && broken == nil {
			last = time.Now()
			broken = line(verifyLine{Sessions: v.Sessions, Events: v.Events})
		}
	})
	if err = errors.Join(err, broken); err != nil {
		return err
	}
	if p.x1 != nil {
		what, err := p.x1.VerifyArchive(ctx)
		if err != nil {
			what = "the archive of x1 cannot be read: " + err.Error()
		}
		if what != "" {
			problems = append(problems, what)
		}
	}
	return line(verifyLine{
		Sessions: report.Sessions, Events: report.Events, Done: true, Problems: problems,
		Found: report.Found + uint64(len(problems)-len(report.Damage)),
	})
}

// smallFiles lists the damaged small files of a data folder. A missing file is no damage: the server creates it when it
// needs it, and logs that.
func smallFiles(data string) (problems []string) {
	for _, name := range []string{"signing-key", "x1-credentials.key", "x1-archive.json"} {
		var content json.RawMessage
		if err := sealed.ReadFile(filepath.Join(data, name), &content); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, name+": "+err.Error())
		}
	}
	return problems
}

// findDamage checks the artifacts and a store and lists the problems.
func findDamage(ctx context.Context, j *journal.Journal, files *artifact.Local, data string, progress func(journal.VerifyProgress)) ([]string, journal.VerifyReport, error) {
	stored, err := files.Verify(ctx)
	if err != nil {
		return nil, journal.VerifyReport{}, err
	}
	// Artifacts have only the hash of the session id; the journal has the id.
	names := map[string]string{}
	for _, d := range stored.Problems {
		names[d.Session] = "with the hash " + d.Session
	}
	report, err := j.Verify(ctx, func(v journal.VerifyProgress) {
		if len(names) > 0 {
			if hash := artifact.SessionHash(v.Session); names[hash] != "" {
				names[hash] = string(v.Session)
			}
		}
		progress(v)
	})
	var problems []string
	for _, d := range report.Damage {
		problems = append(problems, d.String())
	}
	for _, d := range stored.Problems {
		problems = append(problems, artifactProblem(names[d.Session], d))
	}
	return append(problems, smallFiles(data)...), report, err
}

// artifactProblem formats a damaged file of a session.
func artifactProblem(session string, d artifact.Problem) string {
	return "session " + session + ": artifact " + cmp.Or(d.Path, d.Record) + ": " + d.What
}
