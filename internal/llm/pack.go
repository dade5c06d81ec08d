package llm

import (
	"bytes"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// packTime is how a time is told to a model.
const packTime = "2006-01-02 03:04:05 PM MST-0700"

// PackResult wraps what a tool gave in the form in which a model is told of it.
func PackResult(ok bool, message json.RawMessage, at time.Time) string {
	status := "OK"
	if !ok {
		status = "Failed"
	}
	if message = bytes.TrimSpace(message); len(message) == 0 || string(message) == "null" {
		message = json.RawMessage(`""`)
	} else if message[0] != '{' && message[0] != '"' {
		message = chat.AppendString(nil, string(message)) // a text or an object, nothing else
	}
	return pack(`"status":`, status, message, at)
}

// PackSummary wraps a summary of what came before.
func PackSummary(summary string, at time.Time) string {
	return pack(`"type":`, "system_alert", chat.AppendString(nil, summary), at)
}

func pack(key, value string, message []byte, at time.Time) string {
	b := append([]byte{'{'}, key...)
	b = chat.AppendString(b, value)
	b = append(b, `,"message":`...)
	b = append(b, message...)
	b = append(b, `,"time":"`...)
	b = at.UTC().AppendFormat(b, packTime)
	b = append(b, `"}`...)
	var out bytes.Buffer
	if json.Indent(&out, b, "", "  ") != nil {
		return string(b)
	}
	return out.String()
}

// packed is the form of both wrappers.
type packed struct {
	Status  string          `json:"status"`
	Type    string          `json:"type"`
	Message json.RawMessage `json:"message"`
	Time    string          `json:"time"`
	Stats   *Compaction     `json:"compaction_stats"`
}

// UnpackResult takes a wrapped result apart. ok is false when the text is none.
func UnpackResult(text string) (message json.RawMessage, failed, ok bool) {
	var p packed
	if !strings.HasPrefix(strings.TrimLeft(text, " \n\t"), "{") || json.Unmarshal([]byte(text), &p) != nil || p.Message == nil {
		return nil, false, false
	}
	switch p.Status {
	case "OK":
		return p.Message, false, true
	case "Failed":
		return p.Message, true, true
	}
	return nil, false, false
}

// UnpackSummary returns the summary inside its wrapper, or the text itself.
func UnpackSummary(text string) string {
	var p packed
	var s string
	if json.Unmarshal([]byte(text), &p) == nil && p.Type == "system_alert" && json.Unmarshal(p.Message, &s) == nil {
		return s
	}
	return text
}

// CompactionOf returns what a wrapped summary says of its making, nil when it says
// nothing.
func CompactionOf(text string) *Compaction {
	var p packed
	if json.Unmarshal([]byte(text), &p) != nil || p.Type != "system_alert" {
		return nil
	}
	return p.Stats
}

// denial is what a model is told of a call that a person refused.
func denial(reason string) string {
	return "Error: request to call tool denied. User reason: " + reason
}
