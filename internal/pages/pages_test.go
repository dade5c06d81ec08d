package pages

import (
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/attachment"
)

func TestPartsHaveAnAddressOrText(t *testing.T) {
	image := chat.Part{Type: "image", URL: "https://example.com/a.png"}
	file := chat.Part{Type: "file", Path: "uploads/a.txt"}
	stored := file
	stored.URL = attachment.URL("s", file.Path)
	text := func(s string) chat.Part { return chat.Part{Type: "text", Text: s} }
	for _, c := range []struct {
		body chat.UserMessage
		want []chat.Part
	}{
		{chat.UserMessage{}, nil},
		{chat.UserMessage{Text: "a"}, []chat.Part{text("a")}},
		{chat.UserMessage{Content: []chat.Part{text("a"), image, text("b")}}, []chat.Part{text("a"), image, text("b")}},
		{chat.UserMessage{Text: "a", Content: []chat.Part{text("a"), file}}, []chat.Part{text("a"), stored}}, // the text has it already
		{chat.UserMessage{Content: []chat.Part{text(""), {Type: "image"}}}, nil},
	} {
		if got := Parts("s", c.body); !slices.Equal(got, c.want) {
			t.Errorf("%+v has %+v, not %+v", c.body, got, c.want)
		}
	}
}
