package native

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
)

// needAdmin refuses callers that may not act on the whole server.
func needAdmin(c chat.Caller, what string) error {
	if !c.AdministersAll() {
		return chat.Errorf(chat.Denied, "%s needs the scope admin for all workspaces", what)
	}
	return nil
}

// exportSession sends the whole log, one stored event per line.
func (d *Dialect) exportSession(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	ctx, id := r.Context(), sessionID(r)
	var out []byte
	begun := false
	for f, err := range d.opt.Sessions.Facts(ctx, c, id, chat.Range{}) {
		if err != nil && begun {
			// The status is sent already: only a broken body can report the error.
			d.log.ErrorContext(ctx, "an export broke off", "session", id, "err", err)
			panic(http.ErrAbortHandler)
		}
		if !begun {
			if d.audit(r, c, "session_exported", id, err); err != nil {
				return err
			}
			begun = true
			w.Header().Set("Content-Type", "application/x-ndjson")
			w.Header().Set("Cache-Control", "no-store")
		}
		out = append(append(out[:0], f.JSON...), '\n')
		if _, err := w.Write(out); err != nil {
			return nil // the client has disconnected
		}
	}
	return nil
}

// importSession stores a log that was exported before.
func (d *Dialect) importSession(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	if !c.Has(chat.ScopeAdmin) {
		err := chat.Errorf(chat.Denied, "importing needs the scope admin")
		d.audit(r, c, "session_imported", "", err)
		return err
	}
	lines := bufio.NewReaderSize(r.Body, 64<<10)
	head, err := readLine(lines)
	if errors.Is(err, io.EOF) {
		return chat.Errorf(chat.Invalid, "there is nothing to import: send the lines of an export")
	}
	if err != nil {
		return err
	}
	first, err := chat.ParseEvent(head)
	if err != nil {
		return err
	}
	facts := iter.Seq2[chat.Fact, error](func(yield func(chat.Fact, error) bool) {
		line, err := head, error(nil)
		for seq := chat.Seq(1); ; seq++ {
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(chat.Fact{Seq: seq, JSON: line}, err) || err != nil {
				return
			}
			line, err = readLine(lines)
		}
	})
	sess, err := d.opt.Sessions.Import(r.Context(), c, first.Session, facts)
	d.audit(r, c, "session_imported", first.Session, err)
	if err == nil {
		d.http.Send(w, r, http.StatusCreated, d.complete(sess))
	}
	return err
}

// readLine reads one event's line; at the end of the body it returns io.EOF.
func readLine(r *bufio.Reader) ([]byte, error) {
	for {
		var line []byte
		for {
			part, err := r.ReadSlice('\n')
			line = append(line, part...)
			if len(line) > 2*chat.MaxEvent {
				return nil, chat.Errorf(chat.TooLarge, "a line is longer than any event")
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if err != nil && !(errors.Is(err, io.EOF) && len(line) > 0) {
				if errors.Is(err, io.EOF) {
					return nil, io.EOF
				}
				return nil, chat.Errorf(chat.Invalid, "the body could not be read").Because(err)
			}
			break
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

// backup streams a tar of the whole store as it is at this moment.
func (d *Dialect) backup(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	if err := needAdmin(c, "a backup"); err != nil {
		d.audit(r, c, "backup", "", err)
		return err
	}
	out := &lateWriter{w: w}
	err := d.opt.Backup(r.Context(), out)
	d.audit(r, c, "backup", "", err)
	if err != nil {
		if !out.begun {
			return err
		}
		d.log.ErrorContext(r.Context(), "a backup broke off", "err", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

// lateWriter sends the headers with the first byte, so that an earlier error can
// still set the status.
type lateWriter struct {
	w     http.ResponseWriter
	begun bool
}

func (l *lateWriter) Write(p []byte) (int, error) {
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", "application/x-tar")
		l.w.Header().Set("Cache-Control", "no-store")
		l.w.Header().Set("Content-Disposition", `attachment; filename="parley-backup.tar"`)
	}
	return l.w.Write(p)
}

// verify checks the store and reports its progress, one JSON object per line. A
// check that fails to finish ends with a line that has the error.
func (d *Dialect) verify(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	if err := needAdmin(c, "verifying"); err != nil {
		return err
	}
	enc, flush, begun := json.NewEncoder(w), http.NewResponseController(w), false
	line := func(v any) error {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "application/x-ndjson")
			w.Header().Set("Cache-Control", "no-store")
		}
		if err := enc.Encode(v); err != nil {
			return err
		}
		return flush.Flush()
	}
	err := d.opt.Verify(r.Context(), line)
	if err != nil && begun {
		d.log.ErrorContext(r.Context(), "a verification broke off", "err", err)
		_ = line(edge.Error{Error: edge.InfoOf(err)}) // it fails when the client has disconnected
		return nil
	}
	return err
}
