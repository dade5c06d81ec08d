package convert

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-hq/parley/internal/llm"
)

// CountImages returns the number of images in the parts.
func CountImages(parts []llm.Part) (n int) {
	for _, p := range parts {
		if _, ok := p.(*llm.Image); ok {
			n++
		}
	}
	return n
}

func omitted(n int) string {
	if n == 1 {
		return "[Image omitted]"
	}
	return fmt.Sprintf("[%d images omitted]", n)
}

// WebTypes are the image types that OpenAI and Anthropic accept.
var WebTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// Picture returns an image in a form that can be sent: a URL, or data of one of the
// types. ok is false if the data is missing, invalid or of another type: a provider
// would refuse the image and with it every request of the conversation.
func Picture(s llm.ImageSource, types []string) (url, mediaType, data string, ok bool) {
	mediaType, data = s.MediaType, s.Data
	if s.Type == llm.SourceURL {
		var isData bool
		if mediaType, data, isData = llm.CutDataURL(s.URL); !isData {
			return s.URL, "", "", strings.HasPrefix(s.URL, "https://") || strings.HasPrefix(s.URL, "http://")
		}
	}
	mediaType, _, _ = strings.Cut(strings.ToLower(mediaType), ";")
	switch mediaType = strings.TrimSpace(mediaType); mediaType {
	case "", "image/jpg":
		mediaType = "image/jpeg"
	}
	if _, err := base64.StdEncoding.DecodeString(data); data == "" || err != nil || !slices.Contains(types, mediaType) {
		return "", "", "", false
	}
	return "", mediaType, data, true
}

// At returns the text that replaces an image whose URL a provider does not fetch.
func At(url string) string { return "[Image at " + url + "]" }
