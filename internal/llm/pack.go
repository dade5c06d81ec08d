package llm

import (
	"bytes"
	"strings"
	"time"

	"github.com/parley-hq/parley/internal/json"
)

// packTime is the format of times in wrapped texts.
const packTime = "2006-01-02 03:04:05 PM MST-0700"

// PackResult wraps the result of a tool in the form that models receive.
func PackResult(ok bool, message json.RawMessage, at time.Time) string {
	status := "OK"
	if !ok {
		status = "Failed"
	}
	if message = bytes.TrimSpace(message); len(message) == 0 || string(message) == "null" {
		message = json.RawMessage(`""`)
	} else if message[0] != '{' && message[0] != '"' {
		message = json.AppendString(nil, string(message)) // the message is a string or an object
	}
	return pack(`"status":`, status, message, at)
}

// PackSummary wraps a summary of earlier messages.
func PackSummary(summary string, at time.Time) string {
	return pack(`"type":`, "system_alert", json.AppendString(nil, summary), at)
}

func pack(key, value string, message []byte, at time.Time) string {
	b := append([]byte{'{'}, key...)
	b = json.AppendString(b, value)
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

// packed is the common JSON form of both wrappers.
type packed struct {
	Status  string          `json:"status"`
	Type    string          `json:"type"`
	Message json.RawMessage `json:"message"`
	Time    string          `json:"time"`
	Stats   *Compaction     `json:"compaction_stats"`
}

// UnpackResult unwraps a result. ok is false if the text is not a wrapped result.
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

// UnpackSummary returns the summary in a wrapper, or the text itself if it has no
// wrapper.
func UnpackSummary(text string) string {
	var p packed
	var s string
	if json.Unmarshal([]byte(text), &p) == nil && p.Type == "system_alert" && json.Unmarshal(p.Message, &s) == nil {
		return s
	}
	return text
}

// CompactionOf returns the compaction statistics of a wrapped summary, nil if it has
// none.
func CompactionOf(text string) *Compaction {
	var p packed
	if json.Unmarshal([]byte(text), &p) != nil || p.Type != "system_alert" {
		return nil
	}
	return p.Stats
}

// denial returns the result that a model receives for a denied call.
func denial(reason string) string {
	return "Error: request to call tool denied. User reason: " + reason
}
