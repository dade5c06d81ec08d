package openai

import (
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// ChatRequest is the body of a request to Chat Completions. It has only the fields
// that are used here.
type ChatRequest struct {
	Model               string        `json:"model"`
	Messages            []ChatMessage `json:"messages"`
	Tools               []ChatTool    `json:"tools,omitempty"`
	MaxCompletionTokens int           `json:"max_completion_tokens,omitempty"`
	Temperature         *float64      `json:"temperature,omitempty"`
	ReasoningEffort     string        `json:"reasoning_effort,omitempty"`
	Stream              bool          `json:"stream"`
	StreamOptions       StreamOptions `json:"stream_options"`
}

// StreamOptions requests the usage at the end of the stream.
type StreamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// ChatMessage is one message of a conversation. Content is a string, a []ChatPart or
// nil. The reasoning fields are those of servers that return reasoning.
type ChatMessage struct {
	Role               string     `json:"role"`
	Name               string     `json:"name,omitempty"`
	Content            any        `json:"content,omitempty"`
	ToolCalls          []ChatCall `json:"tool_calls,omitempty"`
	ToolCallID         string     `json:"tool_call_id,omitempty"`
	ReasoningContent   *string    `json:"reasoning_content,omitempty"`
	ReasoningSignature string     `json:"reasoning_content_signature,omitempty"`
	RedactedReasoning  string     `json:"redacted_reasoning_content,omitempty"`
}

// ChatPart is a text or an image.
type ChatPart struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *ImageURL `json:"image_url,omitempty"`
}

// ImageURL is an image.
type ImageURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail"`
}

// ChatCall is a tool call.
type ChatCall struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Function CalledFunction `json:"function"`
}

// CalledFunction contains the name of the tool and its arguments as JSON text.
type CalledFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Function describes a tool that the model may call.
type Function struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Parameters  map[string]any `json:"parameters"`
}

// ChatTool is a tool as Chat Completions lists it.
type ChatTool struct {
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// ResponsesRequest is the body of a request to the Responses API. It has only the
// fields that are used here.
type ResponsesRequest struct {
	Model           string          `json:"model"`
	Input           []Item          `json:"input"`
	Tools           []ResponsesTool `json:"tools,omitempty"`
	Include         []string        `json:"include,omitempty"`
	Reasoning       *Reasoning      `json:"reasoning,omitempty"`
	MaxOutputTokens int             `json:"max_output_tokens,omitempty"`
	Temperature     *float64        `json:"temperature,omitempty"`
	Store           bool            `json:"store"`
	Stream          bool            `json:"stream"`
}

// Reasoning sets the reasoning effort and whether a summary is returned.
type Reasoning struct {
	Effort  string `json:"effort,omitempty"`
	Summary string `json:"summary,omitempty"`
}

// ResponsesTool is a tool as the Responses API lists it.
type ResponsesTool struct {
	Type string `json:"type"`
	Function
	Strict bool `json:"strict"`
}

// Item is one item of the input: a message with a role, reasoning, a call or its
// output. Content and Output are a string or a []InputPart.
type Item struct {
	Type             string         `json:"type,omitempty"`
	Role             string         `json:"role,omitempty"`
	Content          any            `json:"content,omitempty"`
	ID               string         `json:"id,omitempty"`
	EncryptedContent string         `json:"encrypted_content,omitempty"`
	Summary          *[]SummaryText `json:"summary,omitempty"`
	CallID           string         `json:"call_id,omitempty"`
	Name             string         `json:"name,omitempty"`
	Arguments        string         `json:"arguments,omitempty"`
	Status           string         `json:"status,omitempty"`
	Output           any            `json:"output,omitempty"`
}

// SummaryText is one part of a summary of reasoning.
type SummaryText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// InputPart is a text or an image.
type InputPart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	Detail   string `json:"detail,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
}

// Chunk is one event of a streamed answer of Chat Completions, or a whole answer.
type Chunk struct {
	Model   string          `json:"model"`
	Error   json.RawMessage `json:"error"`
	Usage   usage           `json:"usage"`
	Choices []struct {
		Index        number `json:"index"`
		FinishReason text   `json:"finish_reason"`
		Delta        Delta  `json:"delta"`
		Message      Delta  `json:"message"` // of a whole answer
	} `json:"choices"`
}

// Delta is a piece of a message.
type Delta struct {
	Content          text `json:"content"`
	Refusal          text `json:"refusal"`
	ReasoningContent text `json:"reasoning_content"`
	Reasoning        text `json:"reasoning"`
	ToolCalls        []struct {
		Index    number `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string    `json:"name"`
			Arguments arguments `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// Tokens returns the usage, zero if the chunk has none.
func (c *Chunk) Tokens() chat.Usage {
	u := &c.Usage
	return chat.Usage{
		InputTokens: int64(u.Prompt), OutputTokens: int64(u.Completion),
		CacheReadTokens: int64(u.PromptDetails.Cached), CacheCreationTokens: int64(u.PromptDetails.CacheWrite),
		ReasoningTokens: int64(u.CompletionDetails.Reasoning),
	}
}

type usage struct {
	Prompt        number `json:"prompt_tokens"`
	Completion    number `json:"completion_tokens"`
	Total         number `json:"total_tokens"`
	PromptDetails struct {
		Cached     number `json:"cached_tokens"`
		CacheWrite number `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning number `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// responsesEvent is one event of a streamed answer of the Responses API. Type
// determines which fields are set.
type responsesEvent struct {
	Type         string          `json:"type"`
	Error        json.RawMessage `json:"error"`
	OutputIndex  int             `json:"output_index"`
	SummaryIndex int             `json:"summary_index"`
	Delta        text            `json:"delta"`
	Item         outputItem      `json:"item"`
	Response     response        `json:"response"`
	Code         string          `json:"code"`
	Message      string          `json:"message"`
}

type response struct {
	Status string       `json:"status"`
	Output []outputItem `json:"output"`
	Error  struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	IncompleteDetails struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage responsesTokens `json:"usage"`
}

type outputItem struct {
	Type             string    `json:"type"`
	ID               string    `json:"id"`
	CallID           string    `json:"call_id"`
	Name             string    `json:"name"`
	Arguments        arguments `json:"arguments"`
	EncryptedContent string    `json:"encrypted_content"`
	Summary          []struct {
		Text string `json:"text"`
	} `json:"summary"`
	Content []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
}

type responsesTokens struct {
	Input        number `json:"input_tokens"`
	Output       number `json:"output_tokens"`
	InputDetails struct {
		Cached     number `json:"cached_tokens"`
		CacheWrite number `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputDetails struct {
		Reasoning number `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

// Many servers implement these protocols, some with deviations. The types below
// accept the known variants.

// text is a string, or a list of parts with texts. Anything else is decoded as "".
type text string

// UnmarshalJSON reads a text.
func (t *text) UnmarshalJSON(b []byte) error {
	*t = ""
	switch b[0] {
	case '"':
		return json.Unmarshal(b, (*string)(t))
	case '[':
		var parts []struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(b, &parts) == nil {
			for _, p := range parts {
				*t += text(p.Text)
			}
		}
	}
	return nil
}

// arguments are a JSON text in a string, or the JSON value itself.
type arguments string

// UnmarshalJSON reads arguments.
func (a *arguments) UnmarshalJSON(b []byte) error {
	switch {
	case b[0] == '"':
		return json.Unmarshal(b, (*string)(a))
	case string(b) == "null":
		*a = ""
	default:
		*a = arguments(b)
	}
	return nil
}

// number is an integer, possibly written as a fraction or as a string. Anything else
// is decoded as 0.
type number int64

// UnmarshalJSON reads a number.
func (n *number) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	if err != nil {
		f = 0
	}
	*n = number(f)
	return nil
}
