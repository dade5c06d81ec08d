package grant

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
)

func TestAShareIsReadByItsLink(t *testing.T) {
	f := newFixture(t)
	f.session("s1")
	if _, err := f.Files.Local.Put(t.Context(), "s1", "report.txt", "text/plain", strings.NewReader("the report"), artifact.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Files.Local.Put(t.Context(), "s1", "private.txt", "text/plain", strings.NewReader("not shared"), artifact.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	code, s := f.call("helper", "POST", sharesPath, `{"share_id":"rep","title":"Report","share_type":"text","path":"report.txt"}`)
	if code != 201 || s["version"] != 1.0 {
		t.Fatal(code, s)
	}
	link := s["link"].(string)
	if code, v := f.call("helper", "POST", sharesPath, `{}`); code != 400 {
		t.Fatal(code, v)
	}
	for _, address := range []string{"javascript:alert(1)", "data:text/html,x", "//elsewhere", "https:"} {
		if code, v := f.call("alice", "POST", sharesPath, fmt.Sprintf(`{"title":"x","url":%q}`, address)); code != 400 {
			t.Error(address, code, v)
		}
	}
	if code, v := f.call("eve", "GET", sharesPath, ""); code != 404 {
		t.Fatal("another workspace sees it", code, v)
	}
	if code, _ := f.raw("", "GET", link, ""); code != 404 {
		t.Fatal("it is not public", code)
	}
	if code, b := f.raw("bob", "GET", link+"/content", ""); code != 200 || string(b) != "the report" {
		t.Fatal(code, string(b))
	}
	code, s = f.call("helper", "PUT", sharesPath+"/rep", `{"title":"Report 2","path":"report.txt","public":true}`)
	if code != 200 || s["version"] != 2.0 || s["link"] != link || s["title"] != "Report 2" {
		t.Fatal(code, s)
	}
	f.restart()
	if code, b := f.raw("", "GET", link+"/content", ""); code != 200 || string(b) != "the report" {
		t.Fatal(code, string(b))
	}
	if code, b := f.raw("", "GET", link+"/private.txt", ""); code != 404 {
		t.Fatal("it is not part of the share", code, string(b))
	}
	if code, v := f.call("", "GET", link, ""); code != 200 || v["title"] != "Report 2" || v["session_id"] != nil {
		t.Fatal(code, v)
	}
	// An agent.share event of the agent becomes a share, too.
	if _, err := f.Sessions.Append(t.Context(), helper, "s1", []chat.Draft{{Type: "agent.share", Payload: json.RawMessage(`{"share_id":"two","title":"Second","path":"report.txt","url":"javascript:alert(1)"}`)}}); err != nil {
		t.Fatal(err)
	}
	if _, v := f.call("bob", "GET", sharesPath, ""); len(v["shares"].([]any)) != 2 || strings.Contains(fmt.Sprint(v), "alert") {
		t.Fatal(v)
	}
	if code, v := f.call("alice", "DELETE", sharesPath+"/rep", ""); code != 200 {
		t.Fatal(v)
	}
	if code, _ := f.raw("", "GET", link+"/content", ""); code != 410 {
		t.Fatal("it was revoked", code)
	}
	if _, v := f.call("bob", "GET", sharesPath, ""); len(v["shares"].([]any)) != 1 {
		t.Fatal(v)
	}
	facts, _, err := f.Sessions.Read(t.Context(), chat.Trusted, "s1", chat.Range{Types: []string{"agent.share"}})
	if err != nil || len(facts) != 3 {
		t.Fatal("each is an event of the session", len(facts), err)
	}
}

func TestALinkEndsWithItsSession(t *testing.T) {
	f := newFixture(t)
	f.session("s1")
	if _, err := f.Files.Local.Put(t.Context(), "s1", "report.txt", "text/plain", strings.NewReader("the report"), artifact.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	_, s := f.call("helper", "POST", sharesPath, `{"title":"Report","path":"report.txt","public":true}`)
	link := s["link"].(string)
	if code, _ := f.raw("", "GET", link, ""); code != http.StatusOK {
		t.Fatal(code)
	}
	if _, err := f.Sessions.Erase(t.Context(), chat.Trusted, "s1"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, link + "/content"} {
		if code, b := f.raw("", "GET", path, ""); code != http.StatusGone {
			t.Error(path, code, string(b))
		}
	}
}

func TestUnknownLinksLeaveNothingInMemory(t *testing.T) {
	f := newFixture(t)
	for i := range 50 {
		if code, _ := f.call("", "GET", fmt.Sprintf("/api/shares/workspace-%d/link", i), ""); code != 404 {
			t.Fatalf("an unknown link: %d", code)
		}
	}
	if n := f.service.shares.Len(); n != 0 {
		t.Errorf("%d logs are in memory for workspaces that do not exist", n)
	}
}
