package vertesia

import (
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
)

// content is a text file that several people may edit.
type content struct {
	Path       string  `json:"path"`
	Content    *string `json:"content,omitempty"`
	Generation string  `json:"generation"`
}

// maxContent bounds a text that is given out or taken as JSON.
const maxContent = 4 << 20

func (d *Dialect) getContent(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, name, err := d.artifact(r, c)
	if err != nil {
		return err
	}
	body, info, err := d.opt.Files.Get(r.Context(), sess.ID, name)
	if err != nil {
		return err
	}
	defer body.Close()
	if info.Size > maxContent {
		return chat.Errorf(chat.TooLarge, "%s has %d bytes; a text that is edited here has at most %d", clip(name, 80), info.Size, maxContent)
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if !utf8.Valid(b) {
		return chat.Errorf(chat.Invalid, "%s is not a text: download it instead", clip(name, 80))
	}
	text := string(b)
	d.send(w, r, http.StatusOK, content{r.PathValue("path"), &text, info.SHA256})
	return nil
}

// putContent replaces a text, unless somebody else was faster.
func (d *Dialect) putContent(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var in content
	if err := d.read(r, &in); err != nil {
		return err
	}
	if in.Content == nil {
		return chat.Errorf(chat.Invalid, "content is missing")
	}
	sess, name, err := d.artifact(r, c)
	if err != nil {
		return err
	}
	release := d.lock.hold(sess.ID)
	defer release()
	body, info, err := d.opt.Files.Get(r.Context(), sess.ID, name)
	if err != nil {
		return err
	}
	if err := body.Close(); err != nil {
		return err
	}
	if in.Generation != info.SHA256 {
		return chat.Errorf(chat.Conflict, "%s was changed meanwhile: load it again, then make your change", clip(name, 80)).With("generation", info.SHA256)
	}
	if info, err = d.keep(r.Context(), c, &sess.Session, name, info.MediaType, strings.NewReader(*in.Content)); err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, content{Path: r.PathValue("path"), Generation: info.SHA256})
	return nil
}
