package nemo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"mime"
	"net/url"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/text"
)

// maxInline is the size up to which attached data is stored in the event; larger data becomes an artifact.
const maxInline = 32 << 10

// largeFile is attached data that becomes an artifact.
type largeFile struct {
	path, mediaType string
	data            []byte
}

// attachments decodes the parts of a message. The large files must be stored before the message refers to them.
func attachments(list parts) (text string, out []chat.Part, large []largeFile, err error) {
	only := true
	for i := range list {
		p := &list[i]
		if p.isText() {
			if p.Text != "" {
				out = append(out, chat.Part{Type: "text", Text: p.Text})
			}
			continue
		}
		only = false
		one, b, err := attachment(p)
		if err != nil {
			return "", nil, nil, err
		}
		out = append(out, one)
		if b != nil {
			large = append(large, *b)
		}
	}
	text = list.text()
	if only {
		if text == "" {
			return "", nil, nil, refuse(codeContent, "the message is empty")
		}
		return text, nil, nil, nil
	}
	return text, out, large, nil
}

func attachment(p *part) (chat.Part, *largeFile, error) {
	switch p.Type {
	case "image_url", "image", "input_image":
		link := firstLink(p.Image, p.URL)
		out, b, err := linked("image", link)
		out.Detail = link.Detail
		return out, b, err
	case "video_url", "video":
		return linked("video", firstLink(p.Video, p.URL))
	case "audio_url", "audio":
		if p.Audio != nil {
			return encoded("audio", p.Audio)
		}
		return linked("audio", firstLink(p.Link, p.URL))
	case "input_audio":
		return encoded("audio", p.Audio)
	case "input_video":
		return encoded("video", p.Clip)
	case "file", "input_file":
		if p.File == nil {
			return chat.Part{}, nil, refuse(codeData, "a part of type %s needs file {file_data, filename}", p.Type)
		}
		data := p.File.Data
		if !strings.HasPrefix(data, "data:") {
			data = "data:application/octet-stream;base64," + data
		}
		out, b, err := linked("file", &urlPart{URL: data})
		out.Name = cutBytes(p.File.Name, 200)
		return out, b, err
	}
	return chat.Part{}, nil, refuse(codeData, "content of type %q is not supported: use text, image_url, input_audio, video_url or file", text.Clip(p.Type, 60))
}

func firstLink(u *urlPart, plain string) *urlPart {
	if u != nil && u.URL != "" {
		return u
	}
	return &urlPart{URL: plain}
}

// linked is a part with a URL, also a data: URL.
func linked(kind string, u *urlPart) (chat.Part, *largeFile, error) {
	out := chat.Part{Type: kind}
	if u.URL == "" {
		return out, nil, refuse(codeData, "a part of type %s needs a url", kind)
	}
	if strings.HasPrefix(u.URL, "data:") {
		return dataURL(kind, u.URL)
	}
	parsed, err := url.Parse(u.URL)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" || len(u.URL) > 8<<10 {
		return out, nil, refuse(codeData, "the url of a part of type %s must be http, https or data", kind)
	}
	out.URL = u.URL
	return out, nil, nil
}

// dataURL keeps small data in the part and takes large data out.
func dataURL(kind, s string) (chat.Part, *largeFile, error) {
	out := chat.Part{Type: kind}
	head, body, ok := strings.Cut(strings.TrimPrefix(s, "data:"), ",")
	typ, isBase64 := strings.CutSuffix(head, ";base64")
	if !ok || !isBase64 {
		return out, nil, refuse(codeData, "a data: URL must be data:TYPE;base64,DATA")
	}
	media, params, err := mime.ParseMediaType(typ)
	if err != nil {
		media, params = "application/octet-stream", nil
	}
	data, err := decode64(body)
	if err != nil || len(data) == 0 {
		return out, nil, refuse(codeData, "the data of a part of type %s is not base64", kind)
	}
	out.MediaType, out.Size = mime.FormatMediaType(media, params), int64(len(data))
	if len(data) <= maxInline {
		out.URL = "data:" + out.MediaType + ";base64," + base64.StdEncoding.EncodeToString(data)
		return out, nil, nil
	}
	sum := sha256.Sum256(data)
	b := &largeFile{path: "uploads/" + hex.EncodeToString(sum[:12]) + extension(media), mediaType: out.MediaType, data: data}
	out.Path = b.path
	return out, b, nil
}

// encoded is audio or video as bare base64.
func encoded(kind string, a *audioPart) (chat.Part, *largeFile, error) {
	if a == nil || a.Data == "" {
		return chat.Part{Type: kind}, nil, refuse(codeData, "a part of type input_%s needs input_%s {data, format}", kind, kind)
	}
	data, format := a.Data, strings.ToLower(cutBytes(a.Format, 20))
	if !strings.HasPrefix(data, "data:") {
		typ := kind + "/" + format
		switch {
		case format == "" || strings.ContainsAny(format, "/;, "):
			typ = kind + "/octet-stream"
		case format == "mp3":
			typ = "audio/mpeg"
		}
		data = "data:" + typ + ";base64," + data
	}
	out, b, err := dataURL(kind, data)
	out.Format = format
	return out, b, err
}

// decode64 decodes base64 with or without padding, in either alphabet.
func decode64(s string) ([]byte, error) {
	s = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/", "\n", "", "\r", "").Replace(s), "=")
	return base64.RawStdEncoding.DecodeString(s)
}

// extension is the usual file extension of a media type. The system's table would make paths depend on the machine.
func extension(media string) string {
	switch media {
	case "image/png", "image/gif", "image/webp", "image/avif", "audio/wav", "audio/flac", "audio/ogg", "video/mp4", "video/webm", "application/pdf":
		_, ext, _ := strings.Cut(media, "/")
		return "." + ext
	case "image/jpeg":
		return ".jpg"
	case "audio/mpeg":
		return ".mp3"
	}
	return ""
}

// files stores artifacts.
type files interface {
	Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, limit int64) (chat.FileInfo, error)
	Get(ctx context.Context, id chat.SessionID, path string) (io.ReadSeekCloser, chat.FileInfo, error)
}

// storeAttachments stores large files. Their paths are derived from the content, so a repeated message stores the same
// files again.
func (d *Dialect) storeAttachments(ctx context.Context, c chat.Caller, id chat.SessionID, large []largeFile) error {
	for _, b := range large {
		if err := d.opt.Sessions.MayStore(ctx, c, id, int64(len(b.data))); err != nil {
			return err
		}
		if _, err := d.opt.Files.Put(ctx, id, b.path, b.mediaType, bytes.NewReader(b.data), d.opt.MaxArtifact); err != nil {
			return err
		}
	}
	return nil
}
