package session

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/json"
)

// storeLarge stores the large data of a draft as files of the session and replaces the data in the draft by the paths. The
// files are stored before the event, so that no event refers to a missing file. A file name is derived from the content, so
// a repeated draft stores the same file again.
func (s *Sessions) storeLarge(ctx context.Context, c chat.Caller, sess *chat.Session, d *chat.Draft) error {
	if s.opt.Store == nil || len(d.Payload) <= attachment.MaxInline {
		return nil
	}
	var payload json.RawMessage
	var files []attachment.File
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
		if err := s.opt.Store(ctx, sess.ID, f.Path, f.MediaType, bytes.NewReader(f.Data), func(int64) error { return nil }); err != nil {
			return err
		}
	}
	*d, err = d.Rewritten(payload)
	return err
}

// artifactRef moves the data of an artifact into a file and returns the new payload.
func artifactRef(b chat.AgentArtifact, d *chat.Draft) (json.RawMessage, []attachment.File, error) {
	if len(b.Data) <= attachment.MaxInline {
		return nil, nil, nil
	}
	if b.Path != "" {
		return nil, nil, chat.Errorf(chat.TooLarge, "the data of an artifact that has a path has at most %d KiB: put it into the file", attachment.MaxInline>>10)
	}
	data, mediaType := []byte(b.Data), "application/json"
	var text string
	if json.Unmarshal(b.Data, &text) == nil {
		data, mediaType = []byte(text), "text/plain; charset=utf-8"
		if b.ArtifactType == "html" {
			mediaType = "text/html; charset=utf-8"
		}
		if decoded, media, err := attachment.DecodeURL(text); err == nil {
			data, mediaType = decoded, media
		}
	}
	f := attachment.NewFile(chat.WorkFolder(d.Workstream)+"out/", cmp.Or(b.MediaType, mediaType), data)
	payload, err := replaceMembers(d.Payload, []string{"data", "content"}, map[string]any{"path": f.Path, "media_type": f.MediaType, "size": len(data)})
	return payload, []attachment.File{f}, err
}

// partRefs moves the large data URLs of a message into files and returns the new payload.
func partRefs(b chat.UserMessage, d *chat.Draft) (json.RawMessage, []attachment.File, error) {
	parts := slices.Clone(b.Content)
	files := attachment.Extract(parts, chat.WorkFolder(d.Workstream)+attachment.Uploads)
	if len(files) == 0 {
		return nil, nil, nil
	}
	payload, err := replaceMembers(d.Payload, nil, map[string]any{"content": parts})
	return payload, files, err
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
