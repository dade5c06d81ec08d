package anthropic

import "github.com/parley-hq/parley/internal/json"

// The roles of messages.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// Request is the body of a request to the Messages API. It has only the fields that
// are used here.
type Request struct {
	Model       string    `json:"model"`
	MaxTokens   int64     `json:"max_tokens"`
	System      []Block   `json:"system,omitempty"`
	Messages    []Message `json:"messages"`
	Tools       []Tool    `json:"tools,omitempty"`
	Temperature *float64  `json:"temperature,omitempty"`
	Thinking    *Thinking `json:"thinking,omitempty"`
	Stream      bool      `json:"stream"`
}

// Thinking enables thinking.
type Thinking struct {
	Type         string `json:"type"` // enabled
	BudgetTokens int64  `json:"budget_tokens"`
}

// Message is one message of a conversation.
type Message struct {
	Role    string  `json:"role"`
	Content []Block `json:"content"`
}

// Block is one content block of a message. Type determines which fields are set.
type Block struct {
	Type         string          `json:"type"`
	Text         string          `json:"text,omitempty"`
	Thinking     *string         `json:"thinking,omitempty"`
	Signature    string          `json:"signature,omitempty"`
	Data         string          `json:"data,omitempty"`
	Source       *Source         `json:"source,omitempty"`
	ID           string          `json:"id,omitempty"`
	Name         string          `json:"name,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	ToolUseID    string          `json:"tool_use_id,omitempty"`
	Content      []Block         `json:"content,omitempty"`
	IsError      bool            `json:"is_error,omitempty"`
	CacheControl *CacheControl   `json:"cache_control,omitempty"`
}

func textBlock(text string) Block { return Block{Type: "text", Text: text} }

// Source is the source of an image: a URL, or base64 data.
type Source struct {
	Type      string `json:"type"`
	URL       string `json:"url,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
}

// CacheControl marks the end of a prompt prefix that the provider caches.
type CacheControl struct {
	Type string `json:"type"`
}

var ephemeral = &CacheControl{Type: "ephemeral"}

// Tool is a tool that the model may call.
type Tool struct {
	Name         string         `json:"name"`
	Description  string         `json:"description,omitempty"`
	InputSchema  map[string]any `json:"input_schema"`
	CacheControl *CacheControl  `json:"cache_control,omitempty"`
}

// event is one event of a streamed answer. Type determines which fields are set.
type event struct {
	Type    string          `json:"type"`
	Error   json.RawMessage `json:"error"`
	Index   int             `json:"index"`
	Message struct {
		Usage usage `json:"usage"`
	} `json:"message"`
	ContentBlock answerBlock `json:"content_block"`
	Delta        delta       `json:"delta"`
	Usage        usage       `json:"usage"`
}

type answerBlock struct {
	Type      string `json:"type"`
	Text      string `json:"text"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
	Data      string `json:"data"`
	ID        string `json:"id"`
	Name      string `json:"name"`
}

type delta struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Thinking    string `json:"thinking"`
	Signature   string `json:"signature"`
	PartialJSON string `json:"partial_json"`
	StopReason  string `json:"stop_reason"`
}

type usage struct {
	Input         int64 `json:"input_tokens"`
	CacheRead     int64 `json:"cache_read_input_tokens"`
	CacheCreation int64 `json:"cache_creation_input_tokens"`
	Output        int64 `json:"output_tokens"`
	Details       struct {
		Thinking int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}
