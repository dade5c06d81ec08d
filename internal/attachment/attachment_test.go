package attachment

import (
	"context"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

func TestPart(t *testing.T) {
	for address, want := range map[string]chat.Part{
		"data:image/png;base64,aGVsbG8=":            {Type: "image", MediaType: "image/png", Size: 5, URL: "data:image/png;base64,aGVsbG8="},
		"data:IMAGE/PNG;base64, aGVsbG8 ":           {Type: "image", MediaType: "image/png", Size: 5, URL: "data:image/png;base64,aGVsbG8="},
		"data:no type;base64,__8":                   {Type: "file", MediaType: defaultType, Size: 2, URL: "data:" + defaultType + ";base64,//8="},
		"data:text/plain,a%20b":                     {Type: "file", MediaType: "text/plain", Size: 3, URL: "data:text/plain;base64,YSBi"},
		"https://example.com/a.png":                 {Type: "file", URL: "https://example.com/a.png"},
		"/parley/v1/sessions/s/artifacts/uploads/a": {Type: "file", URL: "/parley/v1/sessions/s/artifacts/uploads/a"},
		"":                                    {},
		"data:image/png;base64":               {},
		"data:image/png;base64,%%":            {},
		"data:text/plain,%zz":                 {},
		"file:///etc/passwd":                  {},
		"javascript:alert(1)":                 {},
		"/etc/passwd":                         {},
		"https:///a":                          {},
		"https://example.com/" + long(maxURL): {},
		"/parley/v1/sessions/%zz/artifacts/uploads/a": {},
	} {
		got, err := Part(chat.Part{}, address)
		if want.Type == "" {
			if chat.CodeOf(err) != chat.Invalid {
				t.Errorf("%.80s is not refused: %+v, %v", address, got, err)
			}
		} else if err != nil || got != want {
			t.Errorf("%.80s is %+v, not %+v (%v)", address, got, want, err)
		}
	}
	p, err := Part(chat.Part{Type: "file", MediaType: "text/csv", Name: long(300)}, "data:image/png;base64,aGVsbG8=")
	if err != nil || p.Type != "file" || p.MediaType != "text/csv" || len(p.Name) > maxName+len("…") {
		t.Errorf("the caller's fields are not kept: %+v, %v", p, err)
	}
}

func long(n int) string { return strings.Repeat("x", n) }

func TestLargeDataIsExtracted(t *testing.T) {
	small, err := Part(chat.Part{}, "data:image/png;base64,"+strings.Repeat("A", MaxInline-100))
	if err != nil {
		t.Fatal(err)
	}
	large, err := Part(chat.Part{Name: "n"}, "data:image/png;base64,"+strings.Repeat("A", MaxInline))
	if err != nil {
		t.Fatal(err)
	}
	parts := []chat.Part{small, large, {Type: "text", Text: "x"}}
	files := Extract(parts, Uploads)
	if len(files) != 1 || len(files[0].Data) != MaxInline*3/4 || parts[0] != small {
		t.Fatalf("%d files, parts %+v", len(files), parts[1:])
	}
	want := chat.Part{Type: "image", Name: "n", MediaType: "image/png", Size: MaxInline * 3 / 4, Path: files[0].Path}
	if parts[1] != want || !strings.HasPrefix(want.Path, Uploads) || !strings.HasSuffix(want.Path, ".png") {
		t.Errorf("the part is %+v", parts[1])
	}
}

// fakeStore has two sessions that everybody may read, and one that nobody may read.
type fakeStore struct {
	Sessions
	Files
}

func (fakeStore) Get(_ context.Context, _ chat.Caller, id chat.SessionID) (s chat.Session, err error) {
	if id == "secret" {
		err = chat.Errorf(chat.NotFound, "there is no such session")
	}
	return s, err
}

func (fakeStore) Stat(_ context.Context, id chat.SessionID, path string) (chat.FileInfo, error) {
	info := chat.FileInfo{Path: path, MediaType: "image/png", Size: 7, SHA256: "1"}
	switch {
	case path == "missing":
		return info, chat.Errorf(chat.NotFound, "there is no such file")
	case path == "other" && id == "fork":
		info.SHA256 = "2"
	}
	return info, nil
}

func TestLinksToFilesOfTheServer(t *testing.T) {
	store := Store{Sessions: fakeStore{}, Files: fakeStore{}}
	for _, c := range []struct {
		session, linked chat.SessionID
		path            string
		ok              bool
	}{
		{"s", "s", "uploads/a b/ü.png", true},
		{"fork", "s", "uploads/a", true}, // a fork has copies of files
		{"fork", "s", "other", false},
		{"s", "s", "missing", false},
		{"s", "secret", "uploads/a", false},
		{"", "s", "uploads/a", false}, // a conversation that does not exist yet
	} {
		p, err := Part(chat.Part{}, URL(c.linked, c.path))
		if err != nil {
			t.Fatal(err)
		}
		parts := []chat.Part{p}
		err = store.Resolve(t.Context(), chat.Caller{}, c.session, parts)
		want := chat.Part{Type: "file", Path: c.path, MediaType: "image/png", Size: 7}
		if c.ok && (err != nil || parts[0] != want) || !c.ok && chat.CodeOf(err) != chat.Invalid {
			t.Errorf("%+v: %+v, %v", c, parts[0], err)
		}
	}
}
