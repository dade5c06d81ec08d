package nemo

import (
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
	"github.com/parley-hq/parley/internal/text"
)

// attachments decodes the parts of a message.
func attachments(list parts) (text string, out []chat.Part, err error) {
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
		one, err := decodePart(p)
		if err != nil {
			return "", nil, err
		}
		out = append(out, one)
	}
	text = list.text()
	if only {
		if text == "" {
			return "", nil, refuse(codeContent, "the message is empty")
		}
		return text, nil, nil
	}
	return text, out, nil
}

func decodePart(p *part) (chat.Part, error) {
	switch p.Type {
	case "image_url", "image", "input_image":
		link := firstLink(p.Image, p.URL)
		return linked(chat.Part{Type: "image", Detail: link.Detail}, link.URL)
	case "video_url", "video":
		return linked(chat.Part{Type: "video"}, firstLink(p.Video, p.URL).URL)
	case "audio_url", "audio":
		if p.Audio != nil {
			return encoded("audio", p.Audio)
		}
		return linked(chat.Part{Type: "audio"}, firstLink(p.Link, p.URL).URL)
	case "input_audio":
		return encoded("audio", p.Audio)
	case "input_video":
		return encoded("video", p.Clip)
	case "file", "input_file":
		if p.File == nil {
			return chat.Part{}, refuse(codeData, "a part of type %s needs file {file_data, filename}", p.Type)
		}
		return withData(chat.Part{Type: "file", Name: p.File.Name}, p.File.Data)
	}
	return chat.Part{}, refuse(codeData, "content of type %q is not supported: use text, image_url, input_audio, video_url or file", text.Clip(p.Type, 60))
}

func firstLink(u *urlPart, plain string) *urlPart {
	if u != nil && u.URL != "" {
		return u
	}
	return &urlPart{URL: plain}
}

// linked is a part with a URL, also a data: URL.
func linked(p chat.Part, address string) (chat.Part, error) {
	if address == "" {
		return p, refuse(codeData, "a part of type %s needs a url", p.Type)
	}
	return checked(attachment.Part(p, address))
}

// withData is a part with a data: URL or bare base64.
func withData(p chat.Part, data string) (chat.Part, error) {
	if strings.HasPrefix(data, "data:") {
		p.MediaType = ""
		return linked(p, data)
	}
	return checked(attachment.Data(p, data))
}

func checked(p chat.Part, err error) (chat.Part, error) {
	switch {
	case err != nil:
		return p, &refusal{codeData, chat.Public(err)}
	case strings.HasPrefix(p.URL, "/"): // these clients get no links to files of this server
		return p, refuse(codeData, "the url of a part of type %s must be http, https or data", p.Type)
	case strings.HasPrefix(p.URL, "data:") && p.Size == 0:
		return p, refuse(codeData, "a part of type %s has no data", p.Type)
	}
	return p, nil
}

// encoded is audio or video as base64.
func encoded(kind string, a *audioPart) (chat.Part, error) {
	p := chat.Part{Type: kind, MediaType: kind + "/octet-stream"}
	if a == nil || a.Data == "" {
		return p, refuse(codeData, "a part of type input_%s needs input_%s {data, format}", kind, kind)
	}
	switch p.Format = strings.ToLower(cutBytes(a.Format, 20)); {
	case p.Format == "mp3":
		p.MediaType = "audio/mpeg"
	case p.Format != "" && !strings.ContainsAny(p.Format, "/;, "):
		p.MediaType = kind + "/" + p.Format
	}
	return withData(p, a.Data)
}
