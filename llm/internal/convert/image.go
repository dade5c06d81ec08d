package convert

import (
	"fmt"
	"strings"

	"github.com/parley-hq/parley/llm"
)

// CountImages is how many of the parts are pictures.
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

// Picture is an image that can be sent: a URL, or data with its type. ok is
// false for one whose data is not there.
func Picture(s llm.ImageSource) (url, mediaType, data string, ok bool) {
	switch {
	case s.Type == llm.SourceURL:
		if mt, d, isData := llm.CutDataURL(s.URL); isData {
			return "", mt, d, d != ""
		}
		return s.URL, "", "", strings.HasPrefix(s.URL, "https://") || strings.HasPrefix(s.URL, "http://")
	case s.Data == "":
		return "", "", "", false
	case s.MediaType == "":
		return "", "image/jpeg", s.Data, true
	}
	return "", s.MediaType, s.Data, true
}

// Image reads a picture that is given by URL, or in one.
func Image(url, detail string) *llm.Image {
	if mediaType, data, ok := llm.CutDataURL(url); ok {
		if detail == "auto" {
			detail = ""
		}
		return &llm.Image{Source: llm.ImageSource{Type: llm.SourceBase64, MediaType: mediaType, Data: data, Detail: detail}}
	}
	return &llm.Image{Source: llm.ImageSource{Type: llm.SourceURL, URL: url}}
}
