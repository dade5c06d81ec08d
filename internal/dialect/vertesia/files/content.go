package files

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

// maxContent bounds a text that is sent as JSON.
const maxContent = 4 << 20

func (s *Service) getContent(r *http.Request, c chat.Caller) (any, error) {
	f, err := s.artifact(r, c)
	if err != nil {
		return nil, err
	}
	body, info, err := s.opt.Store.Get(r.Context(), f.session.ID, f.path)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if info.Size > maxContent {
		return nil, chat.Errorf(chat.TooLarge, "%s has %d bytes; a text that is edited here has at most %d", clip(f.path), info.Size, maxContent)
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(b) {
		return nil, chat.Errorf(chat.Invalid, "%s is not a text: download it instead", clip(f.path))
	}
	text := string(b)
	return content{r.PathValue("path"), &text, info.SHA256}, nil
}

// putContent replaces a text, unless it changed since the caller read it.
func (s *Service) putContent(r *http.Request, c chat.Caller) (any, error) {
	var in content
	if err := s.http.Read(r, &in); err != nil {
		return nil, err
	}
	if in.Content == nil {
		return nil, chat.Errorf(chat.Invalid, "content is missing")
	}
	f, err := s.artifact(r, c)
	if err != nil {
		return nil, err
	}
	s.edit.Lock()
	defer s.edit.Unlock()
	info, err := s.info(r.Context(), f)
	if err != nil {
		return nil, err
	}
	if in.Generation != info.SHA256 {
		return nil, chat.Errorf(chat.Conflict, "%s was changed meanwhile: load it again, then make your change", clip(f.path)).With("generation", info.SHA256)
	}
	info, err = s.put(r.Context(), c, f, info.MediaType, strings.NewReader(*in.Content))
	return content{Path: r.PathValue("path"), Generation: info.SHA256}, err
}
