package vertesia

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/retry"
	"github.com/parley-hq/parley/internal/text"
)

// attachment is a file that a person brought into the conversation.
type attachment struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	ContentType string  `json:"content_type"`
	Size        int64   `json:"size"`
	Status      string  `json:"status"` // ready, error
	Path        string  `json:"artifact_path,omitempty"`
	Reference   string  `json:"reference,omitempty"`
	Error       string  `json:"error,omitempty"`
	StartedAt   float64 `json:"started_at"`
	CompletedAt float64 `json:"completed_at,omitempty"`
	ConsumedAt  float64 `json:"consumed_at,omitempty"` // when it was sent to the agent
}

// attachments is the body of vertesia.files: all attachments of a run.
type attachments struct {
	BatchID string       `json:"batch_id"`
	Files   []attachment `json:"files"`
	Closed  []string     `json:"closed,omitempty"` // batches that were announced to the agent

	seen chat.Seq // the last event of the session when they were read
}

func (a *attachments) details() details {
	var pending, ready, failed int
	for _, f := range a.Files {
		switch f.Status {
		case "ready":
			ready++
		case "error":
			failed++
		default:
			pending++
		}
	}
	files := a.Files
	if files == nil {
		files = []attachment{}
	}
	return details{SystemType: "file_processing", BatchID: a.BatchID, Files: files, Pending: &pending, Ready: &ready, Failed: &failed}
}

// put adds an attachment, or replaces the one with its id.
func (a *attachments) put(f attachment) {
	i := slices.IndexFunc(a.Files, func(o attachment) bool { return o.ID == f.ID })
	if i < 0 {
		a.Files = append(a.Files, f)
		return
	}
	a.Files[i] = f
}

// consume returns the attachments that were not sent to the agent yet, and marks
// them as sent. ids limits them; nil means all.
func (a *attachments) consume(now chat.At, ids []string) (parts []chat.Part) {
	for i := range a.Files {
		f := &a.Files[i]
		if f.Status != "ready" || f.ConsumedAt != 0 || ids != nil && !slices.Contains(ids, f.ID) {
			continue
		}
		f.ConsumedAt = millis(now)
		parts = append(parts, chat.Part{Type: "file", Path: f.Path, Name: f.Name, MediaType: f.ContentType, Size: f.Size})
	}
	return parts
}

// attachmentsOf reads the attachments of a run. The caller holds the session's lock, which requests to other nodes of a cluster do
// not have.
func (d *Dialect) attachmentsOf(ctx context.Context, c chat.Caller, id chat.SessionID) (a attachments, err error) {
	st, err := d.opt.Sessions.State(ctx, c, id)
	if err != nil {
		return a, err
	}
	a.seen = st.Last
	e, err := d.lastEvent(ctx, c, id, chat.Range{Types: []string{typeFiles}})
	if err != nil || e == nil {
		return a, err
	}
	if err := json.Unmarshal(e.Payload, &a); err != nil {
		return a, fmt.Errorf("the files of %s at %d: %w", id, e.Seq, err)
	}
	return a, nil
}

// fileSignal is the payload of the signals about files.
type fileSignal struct {
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

// draft is the event with the attachments. It is refused with the reason SessionChanged if the session has other events than those
// that the attachments were read from.
func (a *attachments) draft() chat.Draft {
	d := dialectDraft(typeFiles, a)
	d.AfterSeq = a.seen
	return d
}

// changeAttachments takes a signal about files. Each change is one event with all
// attachments, because clients read it so.
func (d *Dialect) changeAttachments(ctx context.Context, c chat.Caller, sess run, name string, payload json.RawMessage) (reply string, err error) {
	var in fileSignal
	if err := decodeSignal(name, payload, &in); err != nil {
		return "", err
	}
	defer d.lock.Lock(string(sess.ID))()
	err = retry.WhileChanged(ctx, func() error {
		reply, err = d.changeOnce(ctx, c, sess, name, in)
		return err
	})
	return reply, err
}

func (d *Dialect) changeOnce(ctx context.Context, c chat.Caller, sess run, name string, in fileSignal) (string, error) {
	files, err := d.attachmentsOf(ctx, c, sess.ID)
	if err != nil {
		return "", err
	}
	files.BatchID = cmp.Or(in.BatchID, files.BatchID, "files")
	var drafts []chat.Draft
	var reply string
	switch name {
	case "FileUploaded":
		f, err := d.uploaded(ctx, sess.ID, in)
		if err != nil {
			return "", err
		}
		files.put(f)
		reply = "The file was taken."
	case "FileRemoved":
		if in.ID == "" {
			return "", chat.Errorf(chat.Invalid, "id is missing: it names the file to remove")
		}
		files.Files = slices.DeleteFunc(files.Files, func(f attachment) bool { return f.ID == in.ID })
		reply = "The file was taken away."
	default:
		if in.BatchID == "" {
			return "", chat.Errorf(chat.Invalid, "batch_id is missing: it names the batch to close")
		}
		if slices.Contains(files.Closed, in.BatchID) {
			return "The batch was closed before.", nil
		}
		drafts = append(drafts, chat.NewDraft(closeBatch(&files, in, d.now())))
		reply = "The batch was closed."
	}
	return reply, d.append(ctx, c, sess.ID, append(drafts, files.draft())...)
}

// uploaded is the attachment of a file that a client has uploaded.
func (d *Dialect) uploaded(ctx context.Context, id chat.SessionID, in fileSignal) (attachment, error) {
	where := cmp.Or(in.Path, strings.TrimPrefix(in.Reference, "artifact:"))
	if in.ID == "" || where == "" {
		return attachment{}, chat.Errorf(chat.Invalid, "an uploaded file needs its id and artifact_path")
	}
	now := millis(d.now())
	f := attachment{
		ID: in.ID, Name: cmp.Or(in.Name, path.Base(where)), ContentType: in.Type, Path: where, Reference: "artifact:" + where,
		Status: "ready", StartedAt: now, CompletedAt: now,
	}
	info, err := d.opt.Files.Stat(ctx, id, where)
	if chat.CodeOf(err) == chat.NotFound {
		f.Status, f.Error = "error", "the file was not uploaded"
		return f, nil
	}
	f.Size, f.ContentType = info.Size, cmp.Or(in.Type, info.MediaType)
	return f, err
}

// closeBatch is the message that tells the agent that all files of a batch are
// uploaded.
func closeBatch(files *attachments, in fileSignal, now chat.At) chat.UserMessage {
	files.Closed = append(files.Closed, in.BatchID)
	var b strings.Builder
	b.WriteString("[Files Ready]")
	parts := files.consume(now, in.FileIDs)
	for _, p := range parts {
		fmt.Fprintf(&b, "\n- [%s](artifact:%s)", p.Name, p.Path)
	}
	for _, f := range files.Files {
		if f.Status == "error" && slices.Contains(in.FileIDs, f.ID) {
			fmt.Fprintf(&b, "\n- %s could not be read: %s", f.Name, f.Error)
		}
	}
	for _, f := range in.Failed {
		fmt.Fprintf(&b, "\n- %s was not uploaded: %s", text.Clip(f.Name, 200), text.Clip(cmp.Or(f.Error, "no reason given"), 500))
	}
	return chat.UserMessage{Text: b.String(), Content: parts}
}
