package terminal

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

const report = `# Report

The **south** lost *2.4 points*; see [the data](https://example.com/q3) or run ` + "`make report`" + `.

1. Copper is up
   - since June
2. Freight came ~~twice~~ once

- [x] look at the numbers
- [ ] send the summary

> The plan was 27 %.

` + "```go\nfunc main() {\n\treturn\n}\n```" + `

| Region | Margin |
|--------|-------:|
| North  | 31.2 |
| **South** | 9 |
`

func TestScreenRendersMarkdown(t *testing.T) {
	s := newTestScreen(t)
	s.Update(tea.WindowSizeMsg{Width: 80, Height: 40})
	s.apply(chat.AgentText{Text: report})
	s.mustShow(`Report

The south lost 2.4 points; see the data (https://example.com/q3) or run make
report.

1. Copper is up
   ◦ since June
2. Freight came twice once

☑ look at the numbers
☐ send the summary

│ The plan was 27 %.

  ── go ──
  func main() {
      return
  }

Region │ Margin
───────┼───────
North  │   31.2
South  │      9
`)
	if view := s.View().Content; !strings.Contains(view, "\x1b[1msouth\x1b[m") || !strings.Contains(view, "\x1b[3m2.4 points\x1b[m") {
		t.Fatalf("the emphasis is not drawn:\n%q", view)
	}
}

func TestScreenShowsFootnotes(t *testing.T) {
	s := newTestScreen(t)
	s.Update(tea.WindowSizeMsg{Width: 44, Height: 40})
	s.apply(chat.AgentText{Text: "The south lost 2.4 points[^1], copper is up[^source].\n\n[^1]: Against the same quarter of the **last** year.\n[^source]: [Prices](https://example.com)\n"})
	s.mustShow(`The south lost 2.4 points[1], copper is
up[source].

[1] Against the same quarter of the last
    year.
[source] Prices (https://example.com)
`)
	s.Update(tea.WindowSizeMsg{Width: 16, Height: 40})
	s.content() // no line is too wide
}

// A text that grows never shows unfinished markup, and nothing of it is shown twice.
func TestScreenClosesUnfinishedMarkdown(t *testing.T) {
	s := newTestScreen(t)
	s.Update(tea.WindowSizeMsg{Width: 80, Height: 60})
	asked := s.apply(chat.UserMessage{Text: "report"})
	s.apply(chat.TurnStarted{TurnID: "t-1", Trigger: asked, Agent: "demo"})
	for i := 0; i < len(report); i++ {
		s.Update(frameMsg{Preview: &chat.Preview{Block: "b1", Offset: i, End: i + 1, Text: report[i : i+1], Kind: chat.TextBlock, Turn: "t-1"}})
		got := s.content()
		if strings.ContainsAny(got, "*`~#|[]") || strings.Count(got, "south") > 1 || strings.Count(got, "▌") > 1 {
			t.Fatalf("after %q the screen shows\n%s", report[:i+1], got)
		}
	}
	s.apply(chat.AgentText{Block: "b1", Text: report})
	if got := s.content(); strings.Count(got, "The south lost") != 1 || strings.Count(got, "func main") != 1 || strings.Contains(got, "▌") {
		t.Fatalf("the screen shows\n%s", got)
	}
}

// A text that is drawn piece by piece looks like the same text drawn at once.
func TestGrowingTextIsDrawnLikeAWholeText(t *testing.T) {
	text := report + "It is known.[^1]\n\n[^1]: A note\n    of two lines\n\n" + report
	d := newPainter(strong, false)
	var g growth
	for i := range text {
		got, want := d.growing(&g, text[:i], 60), d.markdown(text[:i], true, 60)
		if !slices.Equal(got, want) {
			t.Fatalf("after %q:\n%s\nwant\n%s", text[:i], strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if len(g.text) < len(report) {
		t.Errorf("only %d of %d bytes are not drawn again", len(g.text), len(text))
	}
}

func TestScreenShowsSummariesWithoutMarkup(t *testing.T) {
	s := newTestScreen(t)
	s.apply(chat.WorkstreamLaunched{ID: "w1", Task: "look"})
	s.apply(chat.WorkstreamCompleted{ID: "w1", Summary: "Copper is up **11 %**.\n\n- see `x`"})
	s.mustShow("✓ w1 completed · Copper is up 11 %. • see `x`\n")
}

// Without colours, code is recognised by its backticks.
func TestScreenMarksCodeWithoutColours(t *testing.T) {
	s := newTestScreen(t)
	s.conversation.ticks = true
	s.apply(chat.AgentText{Text: "run `make **all**` now"})
	s.mustShow("run `make **all**` now")
}

func TestScreenShowsTablesAndCharts(t *testing.T) {
	artifact := func(kind, data string) chat.AgentArtifact {
		return chat.AgentArtifact{ArtifactID: "a", ArtifactType: kind, Title: "Numbers", Data: json.RawMessage(data)}
	}
	rows := make([]string, 50)
	for i := range rows {
		rows[i] = fmt.Sprintf(`["r%d",%d]`, i, i)
	}
	points := strings.TrimSuffix(strings.Repeat("1,5,9,", 20), ",")
	for name, test := range map[string]struct {
		artifact chat.AgentArtifact
		want     []string
	}{
		"table": {artifact("table", `{"columns":["City",{"label":"People"}],"rows":[["Tokyo",37.10],["São Paulo",null]]}`),
			[]string{"◆ table Numbers\n  City      │ People\n  ──────────┼───────\n  Tokyo     │  37.10\n  São Paulo │"}},
		"objects": {artifact("table", `[{"name":"a","n":1},{"name":"b","extra":{"x":true}}]`),
			[]string{"name │ n │ extra", "a    │ 1 │", `b    │   │ {"x":true}`}},
		"wide table": {artifact("table", `{"columns":["a","b"],"rows":[["`+strings.Repeat("x", 90)+`","`+strings.Repeat("y", 20)+`"]]}`),
			[]string{"xxx… │ yyyyyyyyyyyyyyyyyyyy\n"}},
		"many columns": {artifact("table", `{"columns":[`+strings.TrimSuffix(strings.Repeat(`"a long name",`, 30), ",")+`],"rows":[]}`),
			[]string{"a lon… │ a lon…", "more columns"}},
		"many rows": {artifact("table", `{"columns":["r","n"],"rows":[`+strings.Join(rows, ",")+`]}`), []string{"r19", "… 30 more rows"}},
		"bars": {artifact("chart", `{"type":"bar","x":["Mon","Tue"],"series":[{"name":"Visits","values":[120,240]}]}`),
			[]string{"Visits", "Mon ████", "▌ 120\n", "Tue ████", "█ 240\n"}},
		"two series": {artifact("chart", `{"labels":["Mon"],"datasets":[{"label":"in","data":[1]},{"label":"out","data":["2"]}]}`), []string{"Mon in  ██", "▌ 1\n", "Mon out ██", "█ 2\n"}},
		"negative":   {artifact("chart", `{"data":{"x":["up","down"],"values":[3,-3]}}`), []string{"up   ", "█ 3\n", "down ██", "█", "-3\n"}},
		"line": {artifact("chart", `{"type":"line","x":["a","b","c"],"series":[{"name":"s","values":[1,null,8]}]}`),
			[]string{"s ▁ █ 1 to 8", "a … c", "a │ 1", "c │ 8"}},
		"many points": {artifact("chart", `{"values":[`+points+`]}`), []string{"▁▄█▁▄█", "1 to 9", "… 40 more rows"}},
		"huge":        {artifact("chart", `{"x":["a","b"],"values":[1e308,-1e308]}`), []string{"1e308", "-1e308"}},
		"Vega-Lite":   {artifact("chart", `{"$schema":"https://vega.github.io/schema/vega-lite/v5.json","data":{"values":[{"day":"Mon","n":3}]}}`), []string{"day │ n", "Mon │ 3"}},
		"code":        {chat.AgentArtifact{ArtifactType: "code", Language: "sh", Data: json.RawMessage(`"ls\nrm"`)}, []string{"── sh ──", "  ls\n", "  rm\n"}},
		"other data":  {artifact("table", `{"a":{"b":1}}`), []string{`"a": {`, `"b": 1`}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestScreen(t)
			s.Update(tea.WindowSizeMsg{Width: 80, Height: 40})
			s.apply(test.artifact)
			s.mustShow(test.want...)
			for _, width := range []int{120, 40, 20, 16} {
				s.Update(tea.WindowSizeMsg{Width: width, Height: 40})
				s.content() // no line is too wide
			}
		})
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// mustBeSafe fails if the screen has sequences that control the terminal, other than those of styles.
func (s *testScreen) mustBeSafe() {
	s.t.Helper()
	view := s.View()
	for _, text := range []string{sgr.ReplaceAllString(view.Content, ""), strings.ReplaceAll(view.WindowTitle, "\n", "\x00")} {
		for _, r := range text {
			if r != '\n' && unicode.IsControl(r) || bidi(r) {
				s.t.Fatalf("the screen has the character %q:\n%q", r, text)
			}
		}
	}
	if strings.Contains(view.Content, "\x1b[45m") {
		s.t.Fatalf("a text changed the style of the screen:\n%q", view.Content)
	}
}

// Nothing that an agent or another person writes reaches the terminal as a control sequence.
func TestScreenShowsNoControlSequences(t *testing.T) {
	const evil = "\x1b]0;owned\x07\x1b[45m\x1b[2J\u009b2J\u202e\r\x08&#27;[45m&#x9b;2J&#x202e;"
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	raw := func(format string) json.RawMessage {
		return json.RawMessage(strings.ReplaceAll(format, "EVIL", string(quoted)))
	}
	other := chat.Actor{Kind: chat.User, ID: "x" + evil, Name: "n" + evil}
	for name, body := range map[string]chat.Body{
		"text":         chat.AgentText{Text: "a " + evil},
		"heading":      chat.AgentText{Text: "# " + evil},
		"code":         chat.AgentText{Text: "```go" + evil + "\n" + evil + "\n```"},
		"code span":    chat.AgentText{Text: "`" + evil + "`"},
		"link":         chat.AgentText{Text: "[t" + evil + "](http://x/" + evil + ") <http://x/" + evil + ">\n\n[r]\n\n[r]: http://x/" + evil},
		"list":         chat.AgentText{Text: "- [x] " + evil + "\n> " + evil},
		"footnote":     chat.AgentText{Text: "a[^&#27;[45m\u009b2J]\n\n[^&#27;[45m\u009b2J]: " + evil},
		"table":        chat.AgentText{Text: "| " + evil + " |\n|---|\n| " + evil + " |"},
		"thinking":     chat.AgentThinking{Text: "**" + evil},
		"message":      chat.UserMessage{Text: evil},
		"status":       chat.AgentStatus{Message: evil},
		"tool":         chat.AgentToolCall{CallID: "c", Tool: "t" + evil, Params: raw("EVIL")},
		"data table":   chat.AgentArtifact{ArtifactType: "table", Title: evil, Data: raw(`{"columns":[EVIL,{"name":EVIL}],"rows":[[EVIL,{"a":EVIL}]]}`)},
		"data objects": chat.AgentArtifact{ArtifactType: "table" + evil, Path: evil, Data: raw(`[{EVIL:EVIL}]`)},
		"bars":         chat.AgentArtifact{ArtifactType: "chart", Data: raw(`{"x":[EVIL],"series":[{"name":EVIL,"values":[1]}]}`)},
		"line":         chat.AgentArtifact{ArtifactType: "chart", Data: raw(`{"type":"line","x":[EVIL,"b"],"series":[{"name":EVIL,"values":[1,2]}]}`)},
		"code data":    chat.AgentArtifact{ArtifactType: "code", Language: evil, Data: raw(`EVIL`)},
		"other data":   chat.AgentArtifact{ArtifactType: "x", Data: raw(`{EVIL:EVIL}`)},
		"approval":     chat.AgentApprovalRequest{RequestID: "p", Text: evil, Calls: []chat.ApprovalCall{{CallID: "c", Tool: evil, Risk: evil, Params: raw(`{EVIL:EVIL,"c1":"` + "\u009b2J\u202e\u007f" + `"}`)}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestScreen(t)
			s.conversation.me = chat.Actor{Kind: chat.User, ID: "me"}
			asked := s.apply(chat.UserMessage{Text: "hi"})
			s.apply(chat.TurnStarted{TurnID: "t-1", Trigger: asked, Agent: "demo"})
			s.seq++
			s.Update(frameMsg{Event: &chat.Event{Session: "s-1", Seq: s.seq, At: chat.AtOf(time.Now()), Actor: other, Turn: "t-1", Type: body.Type(), Body: body}})
			s.mustBeSafe()
			if s.form == nil {
				return
			}
			s.Update(armMsg("p"))
			s.press("e")
			s.mustBeSafe()
			s.Update(editedMsg{requestID: "p", text: evil})
			s.mustBeSafe()
			s.Update(editedMsg{requestID: "p", text: `{"c1":"` + "\u009b2J" + `"}`})
			s.mustShow("you changed the arguments")
			s.mustBeSafe()
		})
	}
	s := newTestScreen(t)
	s.apply(chat.AgentArtifact{ArtifactID: "a", ArtifactType: "table", Path: "x.csv", MediaType: "text/csv"})
	s.conversation.read(fileMsg{s.conversation.Items[0].ID, file{data: []byte("a,b\n" + evil + ",2\n")}})
	s.mustShow("2J")
	s.mustBeSafe()
}

// The plain output has no control characters at all.
func TestReplyPrintsNoControlSequences(t *testing.T) {
	const evil = "\x1b]0;owned\x07\x1b[45m\u009b2J&#27;[2J"
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r := &Reply{Out: &out, Note: func(text string) { out.WriteString(text + "\n") }, turn: "t", printed: map[chat.BlockID]int{}}
	for _, body := range []chat.Body{
		chat.AgentText{Text: "**a** " + evil},
		chat.AgentArtifact{ArtifactType: "table", Title: evil, Data: json.RawMessage(`{"columns":["a"],"rows":[[` + string(quoted) + `]]}`)},
		chat.AgentArtifact{ArtifactType: "chart", Title: evil, Data: json.RawMessage(`{"x":[` + string(quoted) + `],"values":[2]}`)},
		chat.AgentInputRequest{RequestID: "p", InputType: chat.InputNotification, Text: evil},
	} {
		if _, err := r.event(t.Context(), 1, &chat.Event{Seq: 2, Turn: "t", Type: body.Type(), Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	got := out.String()
	if strings.ContainsFunc(got, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) || !strings.Contains(got, "**a**") || !strings.Contains(got, "█ 2\n") || !strings.Contains(got, "🔔") {
		t.Fatalf("the output is %q", got)
	}
}

// A text that was made to be slow does not stop the screen.
func TestScreenDrawsLongTexts(t *testing.T) {
	s := newTestScreen(t)
	s.apply(chat.AgentText{Text: strings.Repeat("**bold** and `code` in a [link](http://x.example) ", 2000)})
	s.apply(chat.AgentText{Text: "|" + strings.Repeat("a|", 20000) + "\n|" + strings.Repeat("-|", 20000)})
	s.apply(chat.AgentText{Text: strings.Repeat("x", 100000)})
	s.apply(chat.AgentText{Text: strings.Repeat("> ", 20000) + "deep"})
	s.mustShow("deep")
	s.move(100000)
	s.mustShow("bold and code in a link (http://x.example)")
}
