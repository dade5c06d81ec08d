package letta

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A large image becomes a file of the session, a small one stays in the message. Sending it again stores no new file.
func TestLargeImagesBecomeFiles(t *testing.T) {
	w := newTestServer(t, setup{})
	a := w.agent("")
	path := "/v1/agents/" + a + "/messages"
	send := func(otid, source string) (int, string) {
		return w.do("POST", path, `{"messages":[{"role":"user","otid":"`+otid+`","content":[{"type":"text","text":"look"},{"type":"image","source":`+source+`}]}]}`)
	}
	small, large := base64.StdEncoding.EncodeToString([]byte("tiny")), base64.StdEncoding.EncodeToString(make([]byte, 300<<10))
	for i, source := range []string{
		`{"type":"base64","media_type":"image/png","data":"` + small + `"}`, `{"type":"url","url":"data:image/png;base64,` + small + `"}`,
		`{"type":"base64","media_type":"image/png","data":"` + large + `"}`, `{"type":"url","url":"https://example.com/x.png"}`,
	} {
		for range 2 {
			if code, b := send(fmt.Sprint("o-", i), source); code != http.StatusOK {
				t.Fatalf("%d: %d %s", i, code, b)
			}
		}
	}
	_, listed := w.do("GET", path+"?order=asc&include_return_message_types=user_message", "")
	for want, n := range map[string]int{
		`"type":"base64","media_type":"image/png","data":"` + small + `"`: 2, `"type":"letta","file_id":"letta/`: 1, `"url":"https://example.com/x.png"`: 1, `"text":"look"`: 4,
	} {
		if got := strings.Count(listed, want); got != n {
			t.Errorf("%s is there %d times, not %d", want, got, n)
		}
	}
	if strings.Contains(listed, large[:1000]) {
		t.Error("the large picture is in the message")
	}
	if code, b := send("bad", `{"type":"base64","media_type":"image/png","data":"`+strings.Repeat("?", 40<<10)+`"}`); code != http.StatusUnprocessableEntity {
		t.Errorf("no base64: %d %s", code, b)
	}
	if code, b := w.do("POST", path, message(strings.Repeat("x", 900<<10), "")); code != http.StatusRequestEntityTooLarge {
		t.Errorf("too long: %d %s", code, b)
	}
	if code, b := w.do("POST", path, message(strings.Repeat("x", 9<<20), "")); code != http.StatusRequestEntityTooLarge {
		t.Errorf("far too long: %d %s", code, b)
	}
	if got := w.say(a, "still there").text(); got != "You said: still there" {
		t.Errorf("%q", got)
	}
}
