package vertesia

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// filesOf is the present set of files of a conversation. The caller holds the
// session's lock.
func (d *Dialect) filesOf(ctx context.Context, c chat.Caller, id chat.SessionID) (filesBody, error) {
	var files filesBody
	facts, _, err := d.opt.Sessions.Read(ctx, c, id, chat.Range{Types: []string{typeFiles}, Limit: 1, Desc: true})
	if err != nil || len(facts) == 0 {
		return files, err
	}
	e, err := facts[0].Event()
	if err != nil {
		return files, err
	}
	if err := json.Unmarshal(e.Payload, &files); err != nil {
		return files, fmt.Errorf("the files of %s at %d: %w", id, e.Seq, err)
	}
	return files, nil
}

// fileRef is what the file signals carry.
type fileRef struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Type      string   `json:"content_type"`
	Path      string   `json:"artifact_path"`
	Reference string   `json:"reference"`
	BatchID   string   `json:"batch_id"`
	FileIDs   []string `json:"file_ids"`
	Failed    []struct {
		Name  string `json:"name"`
		Error string `json:"error"`
	} `json:"failed_uploads"`
}

// fileSignal changes the set of files. Each change is one fact with the whole
// set, because that is how clients read it.
func (d *Dialect) fileSignal(ctx context.Context, c chat.Caller, sess run, name string, payload json.RawMessage) (string, error) {
	var in fileRef
	if err := decodeSignal(name, payload, &in); err != nil {
		return "", err
	}
	release := d.lock.hold(sess.ID)
	defer release()
	files, err := d.filesOf(ctx, c, sess.ID)
	if err != nil {
		return "", err
	}
	files.BatchID = first(in.BatchID, files.BatchID, "files")
	var before []chat.Draft
	said := "The file was taken."
	switch name {
	case "FileUploaded":
		file, err := d.uploaded(ctx, sess.ID, in)
		if err != nil {
			return "", err
		}
		files.put(file)
	case "FileRemoved":
		if in.ID == "" {
			return "", chat.Errorf(chat.Invalid, "which file is removed? Give its id")
		}
		kept := files.Files[:0:0]
		for _, f := range files.Files {
			if f.ID != in.ID {
				kept = append(kept, f)
			}
		}
		files.Files, said = kept, "The file was taken away."
	default:
		if in.BatchID == "" {
			return "", chat.Errorf(chat.Invalid, "which batch is closed? Give its batch_id")
		}
		if slices.Contains(files.Closed, in.BatchID) {
			return "The batch was closed before.", nil
		}
		before, said = []chat.Draft{d.batch(in, &files)}, "The batch was closed."
	}
	snapshot, err := ownDraft(typeFiles, files)
	if err != nil {
		return "", err
	}
	if _, err := d.opt.Sessions.Append(ctx, c, sess.ID, append(before, snapshot)); err != nil {
		return "", err
	}
	return said, nil
}

// uploaded looks at a file that a client says it has uploaded.
func (d *Dialect) uploaded(ctx context.Context, id chat.SessionID, in fileRef) (conversationFile, error) {
	where := first(in.Path, strings.TrimPrefix(in.Reference, "artifact:"))
	if in.ID == "" || where == "" {
		return conversationFile{}, chat.Errorf(chat.Invalid, "an uploaded file needs its id and artifact_path")
	}
	now := millis(d.now())
	f := conversationFile{
		ID: in.ID, Name: first(in.Name, path.Base(where)), ContentType: in.Type, Path: where, Reference: "artifact:" + where,
		Status: "ready", StartedAt: now, CompletedAt: now,
	}
	if d.opt.Files == nil {
		return f, chat.Errorf(chat.Unavailable, "this server keeps no files")
	}
	body, info, err := d.opt.Files.Get(ctx, id, where)
	switch {
	case chat.CodeOf(err) == chat.NotFound:
		f.Status, f.Error = "error", "the file was not uploaded"
	case err != nil:
		return f, err
	default:
		if err := body.Close(); err != nil {
			return f, err
		}
		f.Size, f.ContentType = info.Size, first(in.Type, info.MediaType)
	}
	return f, nil
}

// batch makes the message that tells the agent that all files of a batch are
// there.
func (d *Dialect) batch(in fileRef, files *filesBody) chat.Draft {
	files.Closed = append(files.Closed, in.BatchID)
	var text strings.Builder
	text.WriteString("[Files Ready]")
	parts := files.fresh(d.now(), in.FileIDs)
	for _, p := range parts {
		fmt.Fprintf(&text, "\n- [%s](artifact:%s)", p.Name, p.Path)
	}
	for _, f := range files.Files {
		if f.Status == "error" && slices.Contains(in.FileIDs, f.ID) {
			fmt.Fprintf(&text, "\n- %s could not be read: %s", f.Name, f.Error)
		}
	}
	for _, f := range in.Failed {
		fmt.Fprintf(&text, "\n- %s was not uploaded: %s", clip(f.Name, 200), clip(first(f.Error, "no reason given"), 500))
	}
	draft := chat.NewDraft(chat.UserMessage{Text: text.String(), Content: parts})
	draft.Via = via
	return draft
}
