package gemini

import "github.com/parley-hq/parley/internal/json"

// The roles of contents.
const (
	roleUser  = "user"
	roleModel = "model"
)

// Request is the body of a request to Gemini. It has only the fields that are used
// here.
type Request struct {
	Contents          []*Content `json:"contents"`
	SystemInstruction *Content   `json:"systemInstruction,omitempty"`
	Tools             []Tool     `json:"tools,omitempty"`
	Config            Config     `json:"generationConfig"`
}

// Config contains the generation settings.
type Config struct {
	Temperature     *float64  `json:"temperature,omitempty"`
	MaxOutputTokens int       `json:"maxOutputTokens,omitempty"`
	Thinking        *Thinking `json:"thinkingConfig,omitempty"`
}

// Thinking enables thinking.
type Thinking struct {
	IncludeThoughts bool  `json:"includeThoughts,omitempty"`
	Budget          int64 `json:"thinkingBudget,omitempty"` // tokens
}

// Content is one message of a conversation.
type Content struct {
	Role  string  `json:"role"`
	Parts []*Part `json:"parts"`
}

// Part is one piece of a message: a text, an image, a call or a result.
type Part struct {
	Text             string            `json:"text,omitempty"`
	InlineData       *Blob             `json:"inlineData,omitempty"`
	FunctionCall     *FunctionCall     `json:"functionCall,omitempty"`
	FunctionResponse *FunctionResponse `json:"functionResponse,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	ThoughtSignature []byte            `json:"thoughtSignature,omitempty"`
}

// Blob is an image with inline data.
type Blob struct {
	MediaType string `json:"mimeType"`
	Data      []byte `json:"data"`
}

// FunctionCall is a call of a tool.
type FunctionCall struct {
	ID   string         `json:"id,omitempty"`
	Name string         `json:"name"`
	Args map[string]any `json:"args,omitempty"`
}

// FunctionResponse is the result of a call.
type FunctionResponse struct {
	ID       string         `json:"id,omitempty"`
	Name     string         `json:"name,omitempty"`
	Response map[string]any `json:"response"`
}

// Tool lists the functions that the model may call.
type Tool struct {
	Functions []Function `json:"functionDeclarations"`
}

// Function describes a tool that the model may call.
type Function struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Parameters  map[string]any `json:"parametersJsonSchema"`
}

// response is one event of a streamed answer.
type response struct {
	Error      json.RawMessage `json:"error"`
	ResponseID string          `json:"responseId"`
	Candidates []struct {
		FinishReason string `json:"finishReason"`
		Content      struct {
			Parts []responsePart `json:"parts"`
		} `json:"content"`
	} `json:"candidates"`
	PromptFeedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage *struct {
		Prompt        int64 `json:"promptTokenCount"`
		ToolUsePrompt int64 `json:"toolUsePromptTokenCount"`
		Candidates    int64 `json:"candidatesTokenCount"`
		Thoughts      int64 `json:"thoughtsTokenCount"`
		CachedContent int64 `json:"cachedContentTokenCount"`
	} `json:"usageMetadata"`
}

type responsePart struct {
	Text      string        `json:"text"`
	Thought   bool          `json:"thought"`
	Signature string        `json:"thoughtSignature"`
	Call      *responseCall `json:"functionCall"`
}

type responseCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}
