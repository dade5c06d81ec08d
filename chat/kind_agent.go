package chat

import (
	"cmp"

	"github.com/parley-hq/parley/internal/json"
)

// AgentText is a finished block of the agent's answer; it replaces the previews
// of that block.
type AgentText struct {
	Block     BlockID `json:"block,omitempty"`
	Text      string  `json:"text"`
	Signature string  `json:"signature,omitempty"`
	Final     bool    `json:"final,omitempty"`   // the turn's answer
	Partial   bool    `json:"partial,omitempty"` // cut short by a stop or a crash
}

// AgentThinking is a finished block of the agent's reasoning.
type AgentThinking struct {
	Block     BlockID `json:"block,omitempty"`
	Text      string  `json:"text"`
	Signature string  `json:"signature,omitempty"`
	Redacted  string  `json:"redacted,omitempty"` // encrypted reasoning that is sent back to the provider
	Partial   bool    `json:"partial,omitempty"`
}

// AgentToolCall is the call of a tool.
type AgentToolCall struct {
	CallID     string          `json:"call_id,omitempty"`
	Tool       string          `json:"tool"`
	Params     json.RawMessage `json:"params,omitempty"`
	Repeatable bool            `json:"repeatable,omitempty"` // may be run again when its outcome is not known
}

// AgentToolResult is the result of a tool call.
type AgentToolResult struct {
	CallID string          `json:"call_id,omitempty"`
	Tool   string          `json:"tool,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// AgentToolError says why a tool failed.
type AgentToolError struct {
	CallID string `json:"call_id,omitempty"`
	Tool   string `json:"tool,omitempty"`
	Error  string `json:"error"`
	Code   string `json:"code,omitempty"` // such as unknown_outcome, denied, timeout
}

// UnknownOutcome is the code of a call that was cut off and may not be repeated.
const UnknownOutcome = "unknown_outcome"

// AgentToolProgress reports the progress of a call or of a batch of work.
type AgentToolProgress struct {
	CallID  string          `json:"call_id,omitempty"`
	BatchID string          `json:"batch_id,omitempty"`
	Tool    string          `json:"tool,omitempty"`
	Done    int64           `json:"done"`
	Total   int64           `json:"total,omitempty"`
	Message string          `json:"message,omitempty"`
	Items   []ProgressItem  `json:"items,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// ProgressItem is one element of a batch.
type ProgressItem struct {
	ID         string `json:"id"`
	Status     string `json:"status"` // pending, running, success, error
	Message    string `json:"message,omitempty"`
	DurationMS int64  `json:"duration_ms,omitempty"`
}

// AgentPlan is the whole plan; each one replaces the last.
type AgentPlan struct {
	Tasks   []Task `json:"tasks"`
	Comment string `json:"comment,omitempty"`
}

// Task is one task of a plan.
type Task struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Status string `json:"status"` // pending, in_progress, done, skipped, failed
	Detail string `json:"detail,omitempty"`
}

// AgentStatus says what the agent is doing.
type AgentStatus struct {
	Message string `json:"message"`
	Phase   string `json:"phase,omitempty"`
}

// Usage counts tokens. Cached tokens are part of the input, even if the API of the model
// lists them separately.
type Usage struct {
	InputTokens         int64 `json:"input_tokens,omitempty"`                // the whole prompt, including cached tokens
	OutputTokens        int64 `json:"output_tokens,omitempty"`               // the whole answer, including reasoning
	CacheCreationTokens int64 `json:"cache_creation_input_tokens,omitempty"` // part of the prompt: written to the cache
	CacheReadTokens     int64 `json:"cache_read_input_tokens,omitempty"`     // part of the prompt: read from the cache
	ReasoningTokens     int64 `json:"reasoning_tokens,omitempty"`            // part of the answer
}

// Plus returns the sum of u and v.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		u.InputTokens + v.InputTokens, u.OutputTokens + v.OutputTokens,
		u.CacheCreationTokens + v.CacheCreationTokens, u.CacheReadTokens + v.CacheReadTokens,
		u.ReasoningTokens + v.ReasoningTokens,
	}
}

// AgentUsage reports tokens used since the last report.
type AgentUsage struct {
	Model string `json:"model,omitempty"`
	Usage
}

// AgentError is an error that the agent reports. The turn may continue if it is recoverable.
type AgentError struct {
	Message     string `json:"message"`
	Recoverable bool   `json:"recoverable,omitempty"`
	Code        string `json:"code,omitempty"`
}

// AgentTrace names the trace that observes the turn.
type AgentTrace struct {
	TraceID string `json:"trace_id"`
}

// AgentArtifact is something the agent made: a table, chart, image, file or page.
type AgentArtifact struct {
	ArtifactID   string          `json:"artifact_id,omitempty"`
	ArtifactType string          `json:"type"` // table, chart, image, file, html, code, …
	Title        string          `json:"title,omitempty"`
	Path         string          `json:"path,omitempty"` // in the session's artifacts
	MediaType    string          `json:"media_type,omitempty"`
	Size         int64           `json:"size,omitempty"`
	Data         json.RawMessage `json:"data,omitempty"` // small things inline
	Language     string          `json:"language,omitempty"`
}

// AgentShare reports that something was shared, with the fields of the share.
type AgentShare struct {
	ShareID   string `json:"share_id,omitempty"`
	Title     string `json:"title,omitempty"`
	ShareType string `json:"share_type,omitempty"`
	Path      string `json:"path,omitempty"`
	URL       string `json:"url,omitempty"`
}

// FileUploaded reports that a file was stored in the session.
type FileUploaded struct {
	Path      string `json:"path"`
	Name      string `json:"name,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256,omitempty"`
}

// FileRemoved reports that a file of the session was removed.
type FileRemoved struct {
	Path string `json:"path"`
}

// Type is the type on the wire.
func (AgentText) Type() string         { return "agent.text" }
func (AgentThinking) Type() string     { return "agent.thinking" }
func (AgentToolCall) Type() string     { return "agent.tool_call" }
func (AgentToolResult) Type() string   { return "agent.tool_result" }
func (AgentToolError) Type() string    { return "agent.tool_error" }
func (AgentToolProgress) Type() string { return "agent.tool_progress" }
func (AgentPlan) Type() string         { return "agent.plan" }
func (AgentStatus) Type() string       { return "agent.status" }
func (AgentUsage) Type() string        { return "agent.usage" }
func (AgentError) Type() string        { return "agent.error" }
func (AgentTrace) Type() string        { return "agent.trace" }
func (AgentArtifact) Type() string     { return "agent.artifact" }
func (AgentShare) Type() string        { return "agent.share" }
func (FileUploaded) Type() string      { return "file.uploaded" }
func (FileRemoved) Type() string       { return "file.removed" }

func (b AgentText) check() error     { return checkBlock(b.Block) }
func (b AgentThinking) check() error { return checkBlock(b.Block) }

func checkBlock(b BlockID) error {
	if b == "" {
		return nil
	}
	return b.Validate()
}

func (b AgentToolCall) check() error {
	if b.Tool == "" {
		return Errorf(Invalid, "a tool call needs the tool's name")
	}
	return nil
}

func (AgentToolResult) check() error   { return nil }
func (AgentToolError) check() error    { return nil }
func (AgentToolProgress) check() error { return nil }
func (AgentStatus) check() error       { return nil }
func (AgentUsage) check() error        { return nil }
func (AgentError) check() error        { return nil }
func (AgentTrace) check() error        { return nil }
func (AgentShare) check() error        { return nil }

func (b AgentPlan) check() error {
	if len(b.Tasks) > 1000 {
		return Errorf(TooLarge, "a plan has at most 1000 tasks")
	}
	return nil
}

func (b AgentArtifact) check() error {
	if b.ArtifactType == "" {
		return Errorf(Invalid, "an artifact needs a type, such as table, chart, image, file or html")
	}
	return nil
}

func (b FileUploaded) check() error { return needsPath(b.Path) }
func (b FileRemoved) check() error  { return needsPath(b.Path) }

func needsPath(p string) error {
	if p == "" {
		return Errorf(Invalid, "a file needs its path")
	}
	return nil
}

// readAgentText is quick with a text that has no escapes.
func readAgentText(p json.RawMessage) (b AgentText, err error) {
	f := json.Fields{Rest: p}
	for f.Next() {
		switch string(f.Key) {
		case "block":
			f.Text((*string)(&b.Block))
		case "text":
			f.Text(&b.Text)
		case "final":
			f.Bool(&b.Final)
		case "partial":
			f.Bool(&b.Partial)
		default:
			f.Stop()
		}
	}
	if f.Done() {
		return b, nil
	}
	return plain[AgentText](p)
}

func init() {
	register(readAgentText)
	register(plain[AgentThinking])
	register(func(p json.RawMessage) (b AgentToolCall, err error) {
		var old oldTool
		if err = object(p, &b); err == nil && (b.Tool == "" || b.CallID == "" || b.Params == nil) && lax(p, &old) {
			b.Tool, b.CallID = cmp.Or(b.Tool, old.ToolName), cmp.Or(b.CallID, old.ToolUseID)
			b.Params = firstRaw(b.Params, old.Input)
		}
		return b, err
	})
	register(func(p json.RawMessage) (b AgentToolResult, err error) {
		var old oldTool
		if err = object(p, &b); err == nil && (b.Tool == "" || b.CallID == "" || b.Result == nil) && lax(p, &old) {
			b.Tool, b.CallID = cmp.Or(b.Tool, old.ToolName), cmp.Or(b.CallID, old.ToolUseID)
			b.Result = firstRaw(b.Result, old.Content)
		}
		return b, err
	})
	register(func(p json.RawMessage) (b AgentToolError, err error) {
		var in struct {
			AgentToolError
			Error json.RawMessage `json:"error"` // text, or any JSON in old publishers
		}
		if err = object(p, &in); err != nil {
			return b, err
		}
		b = in.AgentToolError
		b.Error = json.Text(in.Error)
		var old oldTool
		if (b.Tool == "" || b.CallID == "" || b.Error == "") && lax(p, &old) {
			b.Tool, b.CallID = cmp.Or(b.Tool, old.ToolName), cmp.Or(b.CallID, old.ToolUseID)
			b.Error = cmp.Or(b.Error, json.Text(old.Content))
		}
		return b, nil
	})
	register(plain[AgentToolProgress])
	register(plain[AgentPlan])
	register(func(p json.RawMessage) (b AgentStatus, err error) {
		var old struct {
			Status string `json:"status"`
			Detail string `json:"detail"`
		}
		if err = object(p, &b); err == nil && b.Message == "" && lax(p, &old) {
			b.Message, b.Phase = cmp.Or(old.Detail, old.Status), cmp.Or(b.Phase, old.Status)
		}
		return b, err
	})
	register(plain[AgentUsage])
	register(plain[AgentError])
	register(plain[AgentTrace])
	register(func(p json.RawMessage) (b AgentArtifact, err error) {
		var old struct {
			ArtifactType string          `json:"artifact_type"`
			Content      json.RawMessage `json:"content"`
		}
		if err = object(p, &b); err == nil && (b.ArtifactType == "" || b.Data == nil) && lax(p, &old) {
			b.ArtifactType = cmp.Or(b.ArtifactType, old.ArtifactType)
			b.Data = firstRaw(b.Data, old.Content)
		}
		return b, err
	})
	register(plain[AgentShare])
	register(plain[FileUploaded])
	register(plain[FileRemoved])
}

// oldTool has the field names that x1's own code uses for tools.
type oldTool struct {
	ToolName  string          `json:"tool_name"`
	ToolUseID string          `json:"tool_use_id"`
	Input     json.RawMessage `json:"input"`
	Content   json.RawMessage `json:"content"`
}
