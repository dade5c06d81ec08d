package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"mime"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// MaxInline is the largest data in bytes that is stored inside an event. Larger data is stored as a file of the session,
// and the event has the path of the file.
const MaxInline = 32 << 10

// file is data that is moved from an event into a file.
type file struct {
	path, mediaType string
	data            []byte
}

// storeLarge stores the large data of a draft as files of the session and replaces the data in the draft by the paths. The
// files are stored before the event, so that no event refers to a missing file. A file name is derived from the content, so
// a repeated draft stores the same file again.
func (s *Sessions) storeLarge(ctx context.Context, c chat.Caller, sess *chat.Session, d *chat.Draft) error {
	if s.opt.Store == nil || len(d.Payload) <= MaxInline {
		return nil
	}
	var payload json.RawMessage
	var files []file
	var err error
	switch b := d.Body.(type) {
	case chat.AgentArtifact:
		payload, files, err = artifactRef(b, d)
	case chat.UserMessage:
		payload, files, err = partRefs(b, d)
	}
	if err != nil || len(files) == 0 {
		return err
	}
	if _, err := mayAppend(c, sess, d); err != nil {
		return err
	}
	for _, f := range files {
		if err := s.opt.Store(ctx, sess.ID, f.path, f.mediaType, bytes.NewReader(f.data), func(int64) error { return nil }); err != nil {
			return err
		}
	}
	*d, err = d.Rewritten(payload)
	return err
}

// artifactRef moves the data of an artifact into a file and returns the new payload.
func artifactRef(b chat.AgentArtifact, d *chat.Draft) (json.RawMessage, []file, error) {
	if len(b.Data) <= MaxInline {
		return nil, nil, nil
	}
	if b.Path != "" {
		return nil, nil, chat.Errorf(chat.TooLarge, "the data of an artifact that has a path has at most %d KiB: put it into the file", MaxInline>>10)
	}
	f := file{data: b.Data, mediaType: "application/json"}
	var text string
	if json.Unmarshal(b.Data, &text) == nil {
		if data, media, ok := dataURL(text); ok {
			f.data, f.mediaType = data, media
		} else {
			f.data, f.mediaType = []byte(text), "text/plain; charset=utf-8"
			if b.ArtifactType == "html" {
				f.mediaType = "text/html; charset=utf-8"
			}
		}
	}
	if b.MediaType != "" {
		f.mediaType = b.MediaType
	}
	f.path = chat.WorkFolder(d.Workstream) + "out/" + f.name()
	payload, err := replaceMembers(d.Payload, []string{"data", "content"}, map[string]any{"path": f.path, "media_type": f.mediaType, "size": len(f.data)})
	return payload, []file{f}, err
}

// partRefs moves the large data URLs of a message into files and returns the new payload.
func partRefs(b chat.UserMessage, d *chat.Draft) (json.RawMessage, []file, error) {
	var files []file
	parts := make([]chat.Part, len(b.Content))
	for i, p := range b.Content {
		if data, media, ok := dataURL(p.URL); ok && len(p.URL) > MaxInline && p.Path == "" {
			f := file{data: data, mediaType: media}
			f.path = chat.WorkFolder(d.Workstream) + "uploads/" + f.name()
			files = append(files, f)
			p.URL, p.Path, p.MediaType, p.Size = "", f.path, media, int64(len(data))
		}
		parts[i] = p
	}
	if len(files) == 0 {
		return nil, nil, nil
	}
	payload, err := replaceMembers(d.Payload, nil, map[string]any{"content": parts})
	return payload, files, err
}

// name returns a file name derived from the content.
func (f *file) name() string {
	sum := sha256.Sum256(f.data)
	media, _, _ := mime.ParseMediaType(f.mediaType) // an invalid media type gets no extension
	return hex.EncodeToString(sum[:12]) + extensions[media]
}

// extensions maps media types to file name extensions. The operating system's table is not used, because file names must
// not depend on the machine.
var extensions = map[string]string{
	"application/json": ".json", "application/pdf": ".pdf", "text/plain": ".txt", "text/html": ".html", "text/csv": ".csv", "text/markdown": ".md",
	"image/png": ".png", "image/gif": ".gif", "image/webp": ".webp", "image/avif": ".avif", "image/jpeg": ".jpg", "image/svg+xml": ".svg",
	"audio/wav": ".wav", "audio/flac": ".flac", "audio/ogg": ".ogg", "audio/mpeg": ".mp3", "video/mp4": ".mp4", "video/webm": ".webm",
}

// dataURL decodes a URL of the form data:TYPE;base64,DATA.
func dataURL(s string) (data []byte, media string, ok bool) {
	rest, ok := strings.CutPrefix(s, "data:")
	if !ok {
		return nil, "", false
	}
	head, body, _ := strings.Cut(rest, ",")
	media, ok = strings.CutSuffix(head, ";base64")
	if !ok {
		return nil, "", false
	}
	if _, _, err := mime.ParseMediaType(media); err != nil {
		media = "application/octet-stream"
	}
	data, err := base64.StdEncoding.DecodeString(body)
	return data, media, err == nil
}

// replaceMembers returns a JSON object with some members removed and others set.
func replaceMembers(object json.RawMessage, without []string, members map[string]any) (json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil {
		return nil, err
	}
	for _, name := range without {
		delete(all, name)
	}
	for name, v := range members {
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		all[name] = b
	}
	return json.Marshal(all)
}
