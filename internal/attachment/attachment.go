// Package attachment reads and stores the files that clients send with messages: as data: URLs, as base64 and as links.
// The dialects and the session layer share it, so that a file is checked and named in the same way everywhere.
package attachment

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"mime"
	"net/url"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/text"
)

// MaxInline is the length in bytes up to which a data: URL is stored inside an event. Larger data is stored as a file of the
// session.
const MaxInline = 32 << 10

// Limits of a part.
const (
	maxURL  = 8 << 10 // bytes of a link
	maxName = 200
)

// Uploads is the folder of the files that clients send with messages.
const Uploads = "uploads/"

const defaultType = "application/octet-stream"

// Part adds what a client sent as an address to a part: a data: URL, an http or https link, or a link to a file of this server
// as [URL] returns it. The caller has set the part's other fields; a part without a type gets that of its media type.
func Part(p chat.Part, address string) (chat.Part, error) {
	if strings.HasPrefix(address, "data:") {
		if head, plain, ok := cutURL(address); ok && !strings.HasSuffix(head, ";base64") {
			data, err := url.PathUnescape(plain)
			if err != nil {
				return p, chat.Errorf(chat.Invalid, "a data: URL without base64 has characters that are not escaped")
			}
			return withData(p, head, []byte(data)), nil
		}
		data, mediaType, err := DecodeURL(address)
		if err != nil {
			return p, err
		}
		return withData(p, mediaType, data), nil
	}
	if _, _, own := parseURL(address); !own {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || len(address) > maxURL {
			return p, chat.Errorf(chat.Invalid, "the address %q of a file is not supported: send a data:, https: or http: URL of at most %d bytes", text.Clip(address, 80), maxURL)
		}
	}
	p.URL = address
	return complete(p), nil
}

// Data adds base64 data to a part.
func Data(p chat.Part, encoded string) (chat.Part, error) {
	data, err := decode64(encoded)
	if err != nil {
		return p, err
	}
	return withData(p, "", data), nil
}

func withData(p chat.Part, mediaType string, data []byte) chat.Part {
	p.MediaType = validType(cmp.Or(p.MediaType, mediaType))
	p.Size = int64(len(data))
	p.URL = "data:" + p.MediaType + ";base64," + base64.StdEncoding.EncodeToString(data)
	return complete(p)
}

func complete(p chat.Part) chat.Part {
	p.Name = text.Clip(p.Name, maxName)
	if p.Type == "" {
		p.Type = "file"
		switch kind, _, _ := strings.Cut(p.MediaType, "/"); kind {
		case "image", "audio", "video":
			p.Type = kind
		}
	}
	return p
}

// DecodeURL reads a URL of the form data:TYPE;base64,DATA.
func DecodeURL(address string) (data []byte, mediaType string, err error) {
	head, body, ok := cutURL(address)
	mediaType, encoded := strings.CutSuffix(head, ";base64")
	if !ok || !encoded {
		return nil, "", chat.Errorf(chat.Invalid, "a data: URL has the form data:TYPE;base64,DATA")
	}
	data, err = decode64(body)
	return data, validType(mediaType), err
}

func cutURL(address string) (head, body string, ok bool) {
	rest, isData := strings.CutPrefix(address, "data:")
	head, body, ok = strings.Cut(rest, ",")
	return head, body, ok && isData
}

// decode64 decodes base64 with or without padding, in either alphabet.
func decode64(s string) ([]byte, error) {
	s = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimSpace(s)), "=")
	data, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil {
		return nil, chat.Errorf(chat.Invalid, "the data of a file is not base64")
	}
	return data, nil
}

// validType is a media type in its usual form, and that of unknown data if it is none.
func validType(s string) string {
	mediaType, params, err := mime.ParseMediaType(s)
	if err != nil {
		return defaultType
	}
	return cmp.Or(mime.FormatMediaType(mediaType, params), defaultType)
}

// File is data that is stored as a file of a session, because it is too large for an event.
type File struct {
	Path, MediaType string
	Data            []byte
}

// NewFile returns a file whose name is derived from its content, so that a repeated message stores the same file again.
func NewFile(folder, mediaType string, data []byte) File {
	sum := sha256.Sum256(data)
	media, _, _ := mime.ParseMediaType(mediaType) // an invalid media type gets no extension
	return File{Path: folder + hex.EncodeToString(sum[:12]) + extensions[media], MediaType: mediaType, Data: data}
}

// extensions maps media types to file name extensions. The operating system's table is not used, because file names must
// not depend on the machine.
var extensions = map[string]string{
	"application/json": ".json", "application/pdf": ".pdf", "text/plain": ".txt", "text/html": ".html", "text/csv": ".csv", "text/markdown": ".md",
	"image/png": ".png", "image/gif": ".gif", "image/webp": ".webp", "image/avif": ".avif", "image/jpeg": ".jpg", "image/svg+xml": ".svg",
	"audio/wav": ".wav", "audio/flac": ".flac", "audio/ogg": ".ogg", "audio/mpeg": ".mp3", "video/mp4": ".mp4", "video/webm": ".webm",
}

// Extract replaces the large data: URLs of parts by the paths of files in a folder, which it returns. They must be stored
// before the message.
func Extract(parts []chat.Part, folder string) (files []File) {
	for i := range parts {
		p := &parts[i]
		if len(p.URL) <= MaxInline || p.Path != "" {
			continue
		}
		data, mediaType, err := DecodeURL(p.URL)
		if err != nil {
			continue // a link, which is stored as it is
		}
		f := NewFile(folder, mediaType, data)
		p.URL, p.Path, p.MediaType, p.Size = "", f.Path, f.MediaType, int64(len(data))
		files = append(files, f)
	}
	return files
}
