package journal

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// On the nodes of a cluster the log decides which files a session has: commits and FilesChange
// add and remove paths. The bytes of the files are not part of the journal. A single server
// has neither; package artifact keeps its paths.

func fileNameKey(n chat.Number, path string) []byte {
	return numberHashKey(nil, kFileName, n, hashOf(path))
}

// putFileNames adds and removes files, and returns by how many bytes the files of the session have grown.
func putFileNames(r pebble.Reader, b *pebble.Batch, n chat.Number, files []chat.FileInfo) (more int64, err error) {
	if len(files) == 0 {
		return 0, nil
	}
	for i := range files {
		key := fileNameKey(n, files[i].Path)
		old, _, err := readFileName(r, key)
		if err != nil {
			return 0, err
		}
		more -= old.Size
		if files[i].SHA256 == "" {
			b.Delete(key, nil)
			continue
		}
		more += files[i].Size
		v, err := json.Marshal(&files[i])
		if err != nil {
			return 0, err
		}
		b.Set(key, v, nil)
	}
	return putFiles(r, b, n, func(was int64) int64 { return max(0, was+more) })
}

// checkAbsent returns Conflict if one of the paths is there.
func checkAbsent(r pebble.Reader, n chat.Number, files []chat.FileInfo) error {
	for i := range files {
		switch _, there, err := readFileName(r, fileNameKey(n, files[i].Path)); {
		case err != nil:
			return err
		case there:
			return chat.Errorf(chat.Conflict, "there is an artifact %q already", files[i].Path)
		}
	}
	return nil
}

func readFileName(r pebble.Reader, key []byte) (info chat.FileInfo, there bool, err error) {
	v, err := getFrom(r, key)
	if v == nil || err != nil {
		return info, false, err
	}
	if err := json.Unmarshal(v, &info); err != nil {
		return info, false, fmt.Errorf("the entry of a file is damaged: %w", err)
	}
	return info, true, nil
}

// File returns a file of a session as the log of a cluster has it.
func (j *Journal) File(_ context.Context, id chat.SessionID, path string) (info chat.FileInfo, there bool, err error) {
	h, _, err := j.find(id)
	if err != nil {
		return info, false, err
	}
	return readFileName(j.db, fileNameKey(h.number, path))
}

// Files returns the files of a session as the log of a cluster has them, in the order of their paths.
func (j *Journal) Files(ctx context.Context, id chat.SessionID) ([]chat.FileInfo, error) {
	h, _, err := j.find(id)
	if err != nil {
		return nil, err
	}
	files := []chat.FileInfo{}
	for e, err := range j.walk(ctx, numberKey(nil, kFileName, h.number)) {
		if err != nil {
			return nil, err
		}
		var info chat.FileInfo
		if err := json.Unmarshal(e.value, &info); err != nil {
			return nil, fmt.Errorf("the entry of a file of session %s is damaged: %w", id, err)
		}
		files = append(files, info)
	}
	slices.SortFunc(files, func(a, b chat.FileInfo) int { return cmp.Compare(a.Path, b.Path) })
	return files, nil
}
