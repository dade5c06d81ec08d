package nemo

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// maxPayload bounds the payload of a step: large ones freeze the UI. The whole payload is in the log.
const maxPayload = 16 << 10

// escaper escapes payloads as the toolkit's server does; UIs render them as Markdown.
var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// payload is Markdown with a bound and escapes.
func payload(s string) string { return escaper.Replace(cutMarkdown(s, maxPayload)) }

// cutMarkdown cuts Markdown to about max bytes and says how much is missing.
func cutMarkdown(s string, max int) string {
	if len(s) <= max {
		return s
	}
	left := len(s)
	s = cutBytes(s, max)
	left -= len(s)
	if strings.Count(s, "\n```")%2 == 1 || strings.HasPrefix(s, "```") && strings.Count(s, "\n```") == 0 {
		s += "\n```"
	}
	return s + fmt.Sprintf("\n\n… %d bytes more", left)
}

// fence is a value as a code block.
func fence(title string, v json.RawMessage) string {
	lang, text := "json", string(v)
	if len(v) == 0 || string(v) == "null" {
		text = "{}"
	}
	var s string
	if json.Unmarshal(v, &s) == nil {
		lang, text = "python", s
		if json.Valid([]byte(s)) {
			lang = "json"
		}
	} else if len(v) <= maxPayload {
		var b bytes.Buffer
		if json.Indent(&b, v, "", "  ") == nil {
			text = b.String()
		}
	}
	return "**" + title + ":**\n```" + lang + "\n" + strings.ReplaceAll(text, "```", "'''") + "\n```"
}

func fenceText(title, text string) string {
	v, _ := json.Marshal(text)
	return fence(title, v)
}

// toolInput is the input of a call, cut to leave room for the output.
func toolInput(params json.RawMessage) string {
	return cutMarkdown(fence("Input", params), maxPayload/2)
}

func toolProgressText(b chat.AgentToolProgress) string {
	s := "**Progress:** " + fmt.Sprint(b.Done)
	if b.Total > 0 {
		s += fmt.Sprintf(" of %d", b.Total)
	}
	if b.Message != "" {
		s += " · " + b.Message
	}
	return s
}

func planText(b chat.AgentPlan) string {
	var s strings.Builder
	for _, t := range b.Tasks {
		mark := " "
		if t.Status == "done" {
			mark = "x"
		}
		fmt.Fprintf(&s, "- [%s] %s", mark, t.Title)
		if t.Status != "done" && t.Status != "pending" {
			fmt.Fprintf(&s, " (%s)", strings.ReplaceAll(t.Status, "_", " "))
		}
		if t.Detail != "" {
			fmt.Fprintf(&s, ": %s", t.Detail)
		}
		s.WriteByte('\n')
	}
	if b.Comment != "" {
		s.WriteString("\n" + b.Comment)
	}
	return s.String()
}

func artifactText(session chat.SessionID, b chat.AgentArtifact) string {
	var s string
	if b.Path != "" {
		s = "`" + b.Path + "`"
		if b.MediaType != "" {
			s += " (" + b.MediaType + ")"
		}
		s += "\n\n/parley/v1/sessions/" + string(session) + "/artifacts/" + b.Path
	}
	if len(b.Data) > 0 {
		if s != "" {
			s += "\n\n"
		}
		s += fence("Data", b.Data)
	}
	return s
}

// progressText is the progress of a workstream.
func progressText(b chat.WorkstreamProgress) string {
	text := strings.ReplaceAll(b.Phase, "_", " ")
	if b.Tool != "" {
		text += " " + b.Tool
	}
	if b.Iteration > 0 {
		text += fmt.Sprintf(", step %d", b.Iteration)
	}
	if b.Share > 0 {
		text += fmt.Sprintf(", %.0f %% of its time", 100*b.Share)
	}
	if said := strings.TrimSpace(b.Message + " " + b.Summary); said != "" {
		text += "\n\n" + said
	}
	return strings.TrimPrefix(text, ", ")
}

func warningText(b chat.WorkstreamWarning) string {
	return strings.TrimSpace(fmt.Sprintf("%.0f %% of its time has passed. %s", 100*b.Share, b.Message))
}
