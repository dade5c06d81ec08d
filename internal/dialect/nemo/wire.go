package nemo

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"

	"github.com/parley-hq/parley/internal/json"
)

// Types of frames.
const (
	typeUser         = "user_message"
	typeAnswer       = "user_interaction_message"
	typeAuth         = "auth_message"
	typeStep         = "system_intermediate_message"
	typeResponse     = "system_response_message"
	typePrompt       = "system_interaction_message"
	typeTrace        = "observability_trace_message"
	typeError        = "error_message"
	typeAuthResponse = "auth_response_message"
)

// serverTypes are the types that only the server sends.
var serverTypes = map[string]bool{
	typeStep: true, typeResponse: true, typePrompt: true, typeTrace: true, typeError: true, typeAuthResponse: true,
}

// answerTypes are the types of an answer to a prompt: today's, and those of the older document.
var answerTypes = map[string]bool{
	typeAnswer: true, "user_interaction": true, "user_human_interaction": true, "user_human_interaction_message": true,
}

// Codes of errors.
const (
	codeUnknown     = "unknown_error"
	codeWorkflow    = "workflow_error"
	codeMessage     = "invalid_message"
	codeMessageType = "invalid_message_type"
	codeContent     = "invalid_user_message_content"
	codeData        = "invalid_data_content"
	codeAuth        = "user_auth_error"
)

// The values of schema_type.
const (
	schemaChat           = "chat"
	schemaChatStream     = "chat_stream"
	schemaGenerate       = "generate"
	schemaGenerateStream = "generate_stream"
)

// schemaVersion is in the answer when a client names a version.
const schemaVersion = "1.0.0"

// placeholder is what the toolkit's server and its clients write where they have no value.
const placeholder = "default"

// clientFrame is a frame of a client. Content is decoded later, because its errors have codes of their own.
type clientFrame struct {
	Type          string          `json:"type"`
	SchemaType    string          `json:"schema_type"`
	ID            string          `json:"id"`
	Conversation  string          `json:"conversation_id"`
	Thread        string          `json:"thread_id"`
	Parent        string          `json:"parent_id"`
	Content       json.RawMessage `json:"content"`
	User          json.RawMessage `json:"user"`
	Security      security        `json:"security"`
	SchemaVersion string          `json:"schema_version"`
	Payload       json.RawMessage `json:"payload"` // of auth_message
}

// reserved are the top-level keys of the protocol. All others are the client's own and are kept as context.
var reserved = []string{
	"type", "schema_type", "id", "conversation_id", "thread_id", "parent_id", "content", "user", "security",
	"schema_version", "payload", "timestamp", "error", "status",
}

// isReserved ignores case, as the JSON decoder does: a secret under "Security" is decoded, so it must not be stored.
func isReserved(key string) bool {
	return slices.ContainsFunc(reserved, func(name string) bool { return strings.EqualFold(name, key) })
}

// security authenticates one message. It is never stored or logged.
type security struct {
	APIKey string `json:"api_key"`
	Token  string `json:"token"`
}

// LogValue keeps secrets out of logs.
func (security) LogValue() slog.Value { return slog.StringValue("[secret]") }

// String keeps secrets out of formatted text.
func (security) String() string { return "[secret]" }

// GoString keeps secrets out of formatted text.
func (security) GoString() string { return "[secret]" }

// token is the credential, "" for the examples of the documents.
func (s security) token() string {
	for _, t := range []string{s.Token, s.APIKey} {
		if t != "" && t != "string" && t != placeholder {
			return t
		}
	}
	return ""
}

// message is one entry of a chat history.
type message struct {
	Role    string `json:"role"`
	Content parts  `json:"content"`
}

// parts is a text or a list of parts.
type parts []part

// UnmarshalJSON decodes both forms.
func (p *parts) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || string(b) == "null" {
		return nil
	}
	if b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*p = parts{{Type: "text", Text: s}}
		return nil
	}
	var list []part
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	*p = list
	return nil
}

// part is one part of the content of a message.
type part struct {
	Type  string     `json:"type"`
	Text  string     `json:"text"`
	Image *urlPart   `json:"image_url"`
	Video *urlPart   `json:"video_url"`
	Link  *urlPart   `json:"audio_url"`
	Audio *audioPart `json:"input_audio"`
	Clip  *audioPart `json:"input_video"`
	File  *filePart  `json:"file"`
	URL   string     `json:"url"`
}

// urlPart is a URL, also a data: URL.
type urlPart struct {
	URL    string `json:"url"`
	Detail string `json:"detail"`
}

// UnmarshalJSON decodes {"url": …} and a plain text.
func (u *urlPart) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &u.URL)
	}
	type plain urlPart
	return json.Unmarshal(b, (*plain)(u))
}

// audioPart is audio or video in base64.
type audioPart struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

// filePart is a file in base64.
type filePart struct {
	Data string `json:"file_data"`
	Name string `json:"filename"`
}

// authPayload is the payload of auth_message.
type authPayload struct {
	Method   string `json:"method"`
	Token    string `json:"token"`
	Username string `json:"username"`
	Password string `json:"password"`
}

// LogValue keeps secrets out of logs.
func (authPayload) LogValue() slog.Value { return slog.StringValue("[secret]") }

// head is a frame of the server. Which fields it has depends on the schema.
type head struct {
	Type         string  `json:"type"`
	ID           string  `json:"id"`
	Thread       string  `json:"thread_id,omitempty"`
	Parent       string  `json:"parent_id"`
	StepParent   string  `json:"intermediate_parent_id,omitempty"`
	Update       string  `json:"update_message_id,omitempty"`
	Conversation string  `json:"conversation_id,omitempty"`
	Content      any     `json:"content"`
	Status       string  `json:"status,omitempty"`
	Version      *string `json:"schema_version,omitempty"`
	Timestamp    string  `json:"timestamp"`
}

// textContent is the content of a response; in the last one the text is null.
type textContent struct {
	Text *string `json:"text"`
}

// stepContent is the content of an intermediate step, in Markdown.
type stepContent struct {
	Name    string `json:"name"`
	Payload string `json:"payload"`
}

// errorContent is an error.
type errorContent struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details string `json:"details"`
}

// traceContent is the trace of an answer.
type traceContent struct {
	TraceID string `json:"observability_trace_id"`
}

// authResponse answers auth_message.
type authResponse struct {
	Type      string        `json:"type"`
	Status    string        `json:"status"`
	UserID    *string       `json:"user_id"`
	Payload   *errorContent `json:"payload"`
	Timestamp string        `json:"timestamp"`
}

// promptContent is the content of a prompt.
type promptContent struct {
	oldPromptContent
	Timeout *int   `json:"timeout"`
	Error   string `json:"error"`
}

// oldPromptContent is the content of a prompt in AgentIQ, which had no timeouts. Options are objects, for AI-Q texts.
type oldPromptContent struct {
	Interaction string  `json:"interaction,omitempty"` // AgentIQ's dropdown
	InputType   string  `json:"input_type"`
	Text        string  `json:"text"`
	Placeholder *string `json:"placeholder,omitempty"`
	Options     any     `json:"options,omitempty"`
	Required    *bool   `json:"required,omitempty"`
}

// option is one choice.
type option struct {
	ID          string  `json:"id"`
	Label       string  `json:"label"`
	Value       string  `json:"value"`
	Description *string `json:"description,omitempty"`
}
