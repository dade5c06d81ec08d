package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/cluster/datafolder"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/terminal"
)

// stoppedFolder is the data folder of a server that does not run.
type stoppedFolder struct {
	data    string
	folder  *datafolder.Folder
	journal *journal.Journal
	files   *artifact.Local
}

// openStopped opens the data folder of a server that does not run. No other process can use it until close is called.
func openStopped(data string) (*stoppedFolder, error) {
	s := &stoppedFolder{data: data, folder: datafolder.New(data)}
	if !s.folder.HasStore() {
		return nil, fmt.Errorf("%s is not the data folder of a server: there is no store in it", data)
	}
	var err error
	if s.journal, err = journal.Open(s.folder.Store(), journal.Options{MinFree: -1, MinFreePercent: -1}); err != nil {
		return nil, err
	}
	if notes, err := os.ReadDir(filepath.Join(artifactDir(data), "changes")); err == nil && len(notes) > 0 {
		return nil, errors.Join(fmt.Errorf("the last process in %s was killed while it changed files: start the server once, so that it finishes that, and stop it again", data), s.journal.Close())
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, s.journal.Close())
	}
	if s.files, err = artifact.Open(artifactDir(data), artifact.Options{}); err != nil {
		return nil, errors.Join(err, s.journal.Close())
	}
	return s, nil
}

func (s *stoppedFolder) close() error { return s.journal.Close() }

// removeNATS removes the files of the embedded NATS server: those of a single server are of no use in a cluster, and the other
// way round. What x1 had in them is filled again from the store.
func (s *stoppedFolder) removeNATS() error { return os.RemoveAll(natsDir(s.data)) }

// nameFiles makes the store name the files of all sessions, as in a cluster. A single server has their names beside their bytes.
// It can be repeated after a kill.
func (s *stoppedFolder) nameFiles(ctx context.Context) (count int, err error) {
	for id, err := range s.journal.IDs(ctx) {
		if err != nil {
			return count, err
		}
		infos, _, err := s.files.List(ctx, id, "", "", 0)
		if err != nil {
			return count, err
		}
		var named []chat.FileInfo
		for _, info := range infos {
			if info.Path == info.SHA256 { // bytes that were named before the kill
				continue
			}
			if _, err := s.files.Copy(ctx, id, info.Path, id, info.SHA256); err != nil && chat.CodeOf(err) != chat.Conflict {
				return count, err
			}
			named = append(named, info)
		}
		if len(named) == 0 {
			continue
		}
		if err := s.changeNames(ctx, id, named); err != nil {
			return count, err
		}
		for _, info := range named {
			if err := s.files.RemoveBytes(ctx, id, info.Path); err != nil {
				return count, err
			}
		}
		count += len(named)
	}
	return count, nil
}

// changeNames adds files to a session in the store, or removes those without a hash.
func (s *stoppedFolder) changeNames(ctx context.Context, id chat.SessionID, infos []chat.FileInfo) error {
	have, err := s.journal.Files(ctx, id)
	if err != nil {
		return err
	}
	var bytes int64
	for _, info := range have {
		bytes += info.Size
	}
	// A single server has counted the bytes already; the change counts them again.
	if err := s.journal.SetFiles(ctx, id, bytes); err != nil {
		return err
	}
	refused, err := s.journal.Apply(&journal.Frame{Copy: []byte{}, Changes: []journal.Change{&journal.FilesChange{Session: id, Files: infos}}})
	if err == nil {
		err = refused[0]
	}
	if err != nil {
		return err
	}
	return s.journal.Sync()
}

// missingFiles lists the files whose bytes are not on this node.
func (s *stoppedFolder) missingFiles(ctx context.Context) (missing []string, err error) {
	for id, err := range s.journal.IDs(ctx) {
		if err != nil {
			return nil, err
		}
		infos, err := s.journal.Files(ctx, id)
		if err != nil {
			return nil, err
		}
		for _, info := range infos {
			if _, _, err := s.files.ReadBytes(id, info.SHA256, nil, 0); err != nil {
				missing = append(missing, fmt.Sprintf("%s of session %s (%s)", info.Path, id, terminal.Size(info.Size)))
			}
		}
	}
	return missing, nil
}

// ownFiles is the reverse of nameFiles. Files without bytes are left out.
func (s *stoppedFolder) ownFiles(ctx context.Context) (count int, err error) {
	for id, err := range s.journal.IDs(ctx) {
		if err != nil {
			return count, err
		}
		infos, err := s.journal.Files(ctx, id)
		if err != nil {
			return count, err
		}
		if len(infos) == 0 {
			continue
		}
		var bytes int64
		var gone []chat.FileInfo
		for _, info := range infos {
			gone = append(gone, chat.FileInfo{Path: info.Path})
			n, err := s.ownFile(ctx, id, info)
			if err != nil {
				return count, err
			}
			if n >= 0 {
				bytes, count = bytes+n, count+1
			}
		}
		for _, info := range infos {
			if err := s.files.RemoveBytes(ctx, id, info.SHA256); err != nil {
				return count, err
			}
		}
		if err := s.changeNames(ctx, id, gone); err != nil {
			return count, err
		}
		if err := s.journal.SetFiles(ctx, id, bytes); err != nil {
			return count, err
		}
	}
	return count, nil
}

// ownFile stores bytes under their path, and returns how many there are, -1 if they are not on this node.
func (s *stoppedFolder) ownFile(ctx context.Context, id chat.SessionID, info chat.FileInfo) (int64, error) {
	body, _, err := s.files.Get(ctx, id, info.SHA256)
	if chat.CodeOf(err) == chat.NotFound {
		if old, err := s.files.Stat(ctx, id, info.Path); err == nil { // before a kill
			return old.Size, nil
		}
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	defer body.Close()
	stored, err := s.files.Put(ctx, id, info.Path, info.MediaType, body, artifact.PutOptions{})
	return stored.Size, err
}
