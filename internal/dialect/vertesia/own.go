package vertesia

import (
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Facts that only this protocol has words for. They are stored under types of
// their own; other dialects pass them on or stay quiet.
const (
	typeFiles     = "vertesia.files"     // the files of the conversation, all of them anew
	typeStopped   = "vertesia.stopped"   // whose stop it was
	typeRestarted = "vertesia.restarted" // a run that had ended is open again
	typeSignal    = "vertesia.signal"    // a signal that has no counterpart
	typeTelemetry = "vertesia.telemetry" // what a worker reported of itself
)

// stoppedBody acknowledges a stop.
type stoppedBody struct {
	Message  string `json:"message,omitempty"`
	ClientID string `json:"client_message_id,omitempty"`
}

// conversationFile is a file that somebody brought into the conversation.
type conversationFile struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	ContentType string  `json:"content_type"`
	Size        int64   `json:"size"`
	Status      string  `json:"status"` // ready, error
	Path        string  `json:"artifact_path,omitempty"`
	Reference   string  `json:"reference,omitempty"`
	Error       string  `json:"error,omitempty"`
	StartedAt   float64 `json:"started_at"`
	CompletedAt float64 `json:"completed_at,omitempty"`
	ConsumedAt  float64 `json:"consumed_at,omitempty"` // when it reached the agent
}

// filesBody is the whole set of files.
type filesBody struct {
	BatchID string             `json:"batch_id"`
	Files   []conversationFile `json:"files"`
	Closed  []string           `json:"closed,omitempty"` // batches that the agent was told of
}

// ownDraft wraps one of the facts above.
func ownDraft(typ string, body any) (chat.Draft, error) {
	b, err := marshal(body)
	if err != nil {
		return chat.Draft{}, chat.Errorf(chat.Invalid, "what was sent cannot be stored").Because(err)
	}
	return chat.Draft{Type: typ, Payload: b, Via: via}, nil
}

func ownMessages(e *chat.Event, b chat.Unknown) []message {
	one := func(t Type, text string, d any) []message {
		return []message{{t: t, text: text, line: e.Workstream, d: detailsOf(d)}}
	}
	switch b.Name {
	case typeFiles:
		var files filesBody
		if json.Unmarshal(b.Payload, &files) != nil {
			return nil
		}
		return one(System, "", files.details())
	case typeStopped:
		var s stoppedBody
		if json.Unmarshal(b.Payload, &s) != nil {
			return nil
		}
		return []message{stopMessage(e.Workstream, s.Message, s.ClientID, nil)}
	case typeRestarted:
		return one(Restarting, "The run was opened again.", details{Class: "activity"})
	}
	return nil
}

func (f *filesBody) details() details {
	var pending, ready, failed int
	for _, one := range f.Files {
		switch one.Status {
		case "ready":
			ready++
		case "error":
			failed++
		default:
			pending++
		}
	}
	files := f.Files
	if files == nil {
		files = []conversationFile{}
	}
	return details{SystemType: "file_processing", BatchID: f.BatchID, Files: files, Pending: &pending, Ready: &ready, Failed: &failed}
}

// put adds a file, or replaces the one of that id.
func (f *filesBody) put(file conversationFile) {
	i := slices.IndexFunc(f.Files, func(o conversationFile) bool { return o.ID == file.ID })
	if i < 0 {
		f.Files = append(f.Files, file)
		return
	}
	f.Files[i] = file
}

// fresh are the files that have not reached the agent; they are marked as such
// from now on.
func (f *filesBody) fresh(now chat.At, ids []string) (parts []chat.Part) {
	for i := range f.Files {
		one := &f.Files[i]
		if one.Status != "ready" || one.ConsumedAt != 0 || ids != nil && !slices.Contains(ids, one.ID) {
			continue
		}
		one.ConsumedAt = millis(now)
		parts = append(parts, chat.Part{Type: "file", Path: one.Path, Name: one.Name, MediaType: one.ContentType, Size: one.Size})
	}
	return parts
}
