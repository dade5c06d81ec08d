package terminal

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// messageText is the text of a message, with a line for each attachment.
func messageText(b chat.UserMessage) string {
	text := b.PlainText()
	for _, p := range b.Content {
		if p.Type != "text" {
			text = strings.TrimSpace(text + "\n[" + p.Type + " " + cmp.Or(p.Name, p.Path, p.URL) + "]")
		}
	}
	return text
}

func artifactText(b chat.AgentArtifact) string {
	text := cmp.Or(b.Title, b.Path, b.ArtifactID)
	if b.Path != "" && b.Path != text {
		text += " · " + b.Path
	}
	if b.Size > 0 {
		text += " (" + Size(b.Size) + ")"
	}
	return b.ArtifactType + " " + text
}

func progressText(done, total int64) string {
	if total > 0 {
		return fmt.Sprintf("%d of %d", done, total)
	}
	return fmt.Sprint(done)
}

// PromptTitle is the question of a prompt.
func PromptTitle(p *chat.Prompt) string {
	switch {
	case p.Input != nil:
		return p.Input.Text
	case p.Approval != nil:
		var tools []string
		for _, c := range p.Approval.Calls {
			tools = append(tools, c.Tool)
		}
		return cmp.Or(p.Approval.Text, "May I run "+strings.Join(tools, ", ")+"?")
	}
	text := "May I have: " + strings.Join(p.Permission.Scopes, ", ") + "?"
	if p.Permission.Justification != "" {
		text += " " + p.Permission.Justification
	}
	return text
}

// answerText is the answer to a prompt.
func answerText(a *chat.Answer) string {
	switch {
	case a.Granted != nil && len(*a.Granted) == 0:
		return "denied"
	case a.Granted != nil:
		text := "granted " + strings.Join(*a.Granted, ", ")
		if len(a.Denied) > 0 {
			text += "; denied " + strings.Join(a.Denied, ", ")
		}
		return text
	case len(a.Decisions) > 0:
		var words []string
		for _, d := range a.Decisions {
			word := "approved"
			if !d.Approve {
				word = strings.TrimSuffix("denied: "+d.Reason, ": ")
			} else if d.Remember == "session" {
				word = "approved for the session"
			}
			if d.Approve && len(d.Params) > 0 {
				word += " with changed arguments"
			}
			words = append(words, word)
		}
		return strings.Join(words, ", ")
	}
	return cmp.Or(strings.Join(a.Values, ", "), a.Text)
}

// paramsText is the parameters of a call; "" when there are none.
func paramsText(raw json.RawMessage) string {
	if s := string(raw); s != "{}" && s != "null" {
		return s
	}
	return ""
}

// EventText is the main content of an event as text: its message, tool call, question or answer, else its payload.
func EventText(e *chat.Event) string {
	switch b := e.Body.(type) {
	case chat.UserMessage:
		return messageText(b)
	case chat.AgentText:
		return b.Text
	case chat.AgentThinking:
		return b.Text
	case chat.AgentToolCall:
		return b.Tool + " " + paramsText(b.Params)
	case chat.AgentToolResult:
		return b.Tool + " " + string(b.Result)
	case chat.AgentToolError:
		return b.Tool + " " + b.Error
	case chat.AgentStatus:
		return b.Message
	case chat.TurnCompleted:
		return string(b.Outcome) + " " + b.Error
	case chat.AgentInputRequest, chat.AgentApprovalRequest, chat.AgentPermissionRequest:
		if p, ok := chat.AsPrompt(e); ok {
			return PromptTitle(&p)
		}
	case chat.UserInputResponse:
		return answerText(&chat.Answer{Text: b.Text, Values: b.Values})
	case chat.UserApprovalResponse:
		return answerText(&chat.Answer{Decisions: b.Decisions})
	case chat.UserPermissionResponse:
		return answerText(&chat.Answer{Granted: &b.Granted, Denied: b.Denied})
	}
	return string(e.Payload)
}
