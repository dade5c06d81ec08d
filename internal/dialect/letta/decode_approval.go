package letta

import (
	"bytes"

	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// approvalAnswer answers an approval request.
type approvalAnswer struct {
	verdicts []llm.Verdict // nil: approve and reason are for all calls
	approve  *bool
	reason   string
	request  string
	otid     string
}

// readTools reads the tools that the client runs.
func (req *sendRequest) readTools(raw json.RawMessage) error {
	if raw = nonEmpty(raw); raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, &req.tools); err != nil {
		return malformed("client_tools: it must be a list of {name, description, parameters}")
	}
	for i, t := range req.tools {
		if t.Name == "" {
			return malformed("client_tools[%d].name: it is missing", i)
		}
		if p := bytes.TrimSpace(t.Parameters); len(p) > 0 && p[0] != '{' && string(p) != "null" {
			return malformed("client_tools[%d].parameters: it must be a JSON Schema", i)
		}
		if string(bytes.TrimSpace(t.Parameters)) == "null" {
			req.tools[i].Parameters = nil
		}
	}
	return nil
}

func (b *messageBody) approval(path string, returns bool) (*approvalAnswer, error) {
	a := &approvalAnswer{approve: b.Approve, reason: b.Reason, otid: b.OTID}
	if b.Request != nil {
		a.request = *b.Request
	}
	items, key := b.Approvals, "approvals"
	if returns {
		items, key = b.Returns, "tool_returns"
	}
	for i, raw := range items {
		v, err := decodeVerdict(path+"."+key+"["+itoa(i)+"]", raw)
		if err != nil {
			return nil, err
		}
		a.verdicts = append(a.verdicts, v)
	}
	if len(a.verdicts) == 0 && a.approve == nil {
		return nil, malformed("%s.%s: there must be at least one", path, key)
	}
	return a, nil
}

func decodeVerdict(path string, raw json.RawMessage) (llm.Verdict, error) {
	var v struct {
		CallID  string          `json:"tool_call_id"`
		Approve *bool           `json:"approve"`
		Reason  string          `json:"reason"`
		Status  string          `json:"status"`
		Return  json.RawMessage `json:"tool_return"`
		Stdout  []string        `json:"stdout"`
		Stderr  []string        `json:"stderr"`
	}
	if err := json.Unmarshal(raw, &v); err != nil || v.CallID == "" {
		return nil, malformed("%s: it must be an object with tool_call_id and approve, or with tool_call_id, tool_return and status", path)
	}
	if v.Approve != nil {
		return &llm.ToolApproval{ToolCallID: v.CallID, Approve: *v.Approve, Reason: v.Reason}, nil
	}
	r := &llm.ToolReturn{ToolCallID: v.CallID, Status: llm.Status(v.Status), Stdout: v.Stdout, Stderr: v.Stderr}
	if r.Status != llm.Success && r.Status != llm.Failure {
		return nil, malformed("%s: it needs approve, or the status of what the client ran: success or error", path)
	}
	if v.Return = bytes.TrimSpace(v.Return); len(v.Return) > 0 && v.Return[0] == '[' {
		var err error
		r.Parts, err = decodeParts(path+".tool_return", v.Return)
		return r, err
	}
	if len(v.Return) > 0 && string(v.Return) != "null" && json.Unmarshal(v.Return, &r.Text) != nil {
		return nil, malformed("%s.tool_return: it must be a text, or a list of texts and images", path)
	}
	return r, nil
}
