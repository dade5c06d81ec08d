package vertesia

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// details are the details of a message, under the protocol's names.
type details struct {
	Ack          string         `json:"ack,omitempty"`
	Class        string         `json:"event_class,omitempty"`
	SystemType   string         `json:"system_type,omitempty"`
	Interaction  string         `json:"interaction,omitempty"`
	Role         string         `json:"display_role,omitempty"`
	Status       string         `json:"status,omitempty"`
	StatusReason string         `json:"status_reason,omitempty"`
	Phase        string         `json:"phase,omitempty"`
	Attempt      int            `json:"attempt,omitempty"`
	Error        string         `json:"error,omitempty"`
	Tokens       *tokenUsage    `json:"token_usage,omitempty"`
	Model        string         `json:"model,omitempty"`
	Path         string         `json:"path,omitempty"`
	OutputFiles  []string       `json:"outputFiles,omitempty"`
	Share        any            `json:"share,omitempty"`
	Artifact     any            `json:"artifact,omitempty"`
	RequestID    string         `json:"request_id,omitempty"`
	UX           *ux            `json:"ux,omitempty"`
	Deadline     float64        `json:"deadline,omitempty"` // milliseconds since the epoch
	Approval     *toolApproval  `json:"tool_approval,omitempty"`
	Decision     string         `json:"approval_decision,omitempty"`
	Approved     *approvalReply `json:"tool_approval_response,omitempty"`
	Released     *approvalKey   `json:"approval_request,omitempty"`
	Answer       *requestRef    `json:"request_input_response,omitempty"`

	Metadata json.RawMessage `json:"metadata,omitempty"`
	Files    any             `json:"files,omitempty"`

	// Of a batch of files.
	BatchID string `json:"batch_id,omitempty"`
	Pending *int   `json:"pending_count,omitempty"`
	Ready   *int   `json:"ready_count,omitempty"`
	Failed  *int   `json:"error_count,omitempty"`
}

// tokenUsage counts tokens.
type tokenUsage struct {
	Prompt int64 `json:"prompt"`
	Result int64 `json:"result"`
	Total  int64 `json:"total"`
	Cached int64 `json:"prompt_cached,omitempty"`
}

func tokensOf(u chat.Usage) *tokenUsage {
	return &tokenUsage{Prompt: u.InputTokens, Result: u.OutputTokens, Total: u.InputTokens + u.OutputTokens, Cached: u.CacheReadTokens}
}

// detailsOf writes details as JSON, or nil when there are none.
func detailsOf(d any) []byte {
	switch d := d.(type) {
	case nil:
		return nil
	case json.RawMessage:
		return d
	}
	b, err := json.Marshal(d)
	if err != nil {
		panic("vertesia: details cannot be written as JSON: " + err.Error())
	}
	if string(b) == "{}" {
		return nil
	}
	return b
}

type requestRef struct {
	RequestID string `json:"request_id"`
}

// ux says how a UI shows a question.
type ux struct {
	Options  []uxOption `json:"options,omitempty"`
	Variant  string     `json:"variant,omitempty"`
	Multiple bool       `json:"multiSelect,omitempty"`
	Free     *uxFree    `json:"free_response,omitempty"`
}

type uxOption struct {
	ID          string `json:"id"`
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

type uxFree struct {
	Placeholder string `json:"placeholder,omitempty"`
}

// toolApproval is a call that waits for an approval.
type toolApproval struct {
	Key     string `json:"approval_key"`
	Tool    string `json:"tool_name"`
	Target  string `json:"target,omitempty"`
	Summary string `json:"action_summary,omitempty"`
}

type approvalKey struct {
	Key string `json:"approval_key"`
}

type approvalReply struct {
	Decision string `json:"decision"`
	Key      string `json:"approval_key"`
}

// The choices of an approval.
const (
	allowOnce    = "allow_once"
	allowForRun  = "allow_for_run"
	deny         = "deny"
	denyFeedback = "deny_with_feedback"
)

// decisions are the choices that an answer may name as its decision.
var decisions = []string{allowOnce, allowForRun, deny, denyFeedback}

var approvalOptions = []uxOption{{ID: allowOnce, Label: "Allow once"}, {ID: allowForRun, Label: "Allow for this run"}, {ID: deny, Label: "Deny"}}

// inputText is the text of a question, with the address that it refers to.
func inputText(b chat.AgentInputRequest) string {
	if b.URL == "" {
		return b.Text
	}
	return b.Text + "\n\n" + b.URL
}

func inputDetails(b chat.AgentInputRequest) details {
	d := details{RequestID: b.RequestID, Deadline: millis(b.Deadline)}
	if b.InputType == chat.InputOAuth {
		d.UX = &ux{Options: []uxOption{{ID: "done", Label: "Done"}}, Variant: "info"}
		return d
	}
	if len(b.Options) > 0 {
		d.UX = &ux{Multiple: b.InputType == chat.InputCheckbox}
		for _, o := range b.Options {
			d.UX.Options = append(d.UX.Options, uxOption{ID: cmp.Or(o.ID, o.Value, o.Label), Label: cmp.Or(o.Label, o.Value, o.ID), Description: o.Description})
		}
	} else if b.Placeholder != "" {
		d.UX = &ux{Free: &uxFree{b.Placeholder}}
	}
	return d
}

func approvalText(b chat.AgentApprovalRequest) string {
	if b.Text != "" {
		return b.Text
	}
	return "May I run " + toolsOf(b) + "?"
}

func toolsOf(b chat.AgentApprovalRequest) string {
	var names []string
	for _, c := range b.Calls {
		names = append(names, c.Tool)
	}
	return strings.Join(names, ", ")
}

func approvalDetails(b chat.AgentApprovalRequest) details {
	var summary []string
	for _, c := range b.Calls {
		summary = append(summary, strings.TrimSpace(c.Tool+" "+text.Clip(string(c.Params), 2000)))
	}
	return details{
		RequestID: b.RequestID, Deadline: millis(b.Deadline), UX: &ux{Options: approvalOptions, Variant: "warning"},
		Approval: &toolApproval{Key: b.RequestID, Tool: toolsOf(b), Summary: strings.Join(summary, "\n")},
	}
}

func permissionAsked(b chat.AgentPermissionRequest) string {
	text := "May I use " + strings.Join(b.Scopes, ", ") + "?"
	if b.Justification != "" {
		text += " " + b.Justification
	}
	return text
}

func permissionDetails(b chat.AgentPermissionRequest) details {
	return details{RequestID: b.RequestID, Deadline: millis(b.Deadline), UX: &ux{Options: approvalOptions, Variant: "warning"}}
}

func closedText(b chat.PromptClosed) string {
	if b.Reason == chat.Expired {
		return "Nobody answered in time."
	}
	return "The question was withdrawn."
}

// closedDetails are the details of a prompt that was closed without an answer.
func closedDetails(b chat.PromptClosed) details {
	decision := "cancelled_after_denial"
	if b.Reason == chat.Expired {
		decision = "timeout"
	}
	return details{Class: "activity", RequestID: b.RequestID, Decision: decision, Released: &approvalKey{b.RequestID}}
}

// approvalOf combines several decisions: one denial denies all.
func approvalOf(b chat.UserApprovalResponse) *approvalReply {
	reply := &approvalReply{Decision: allowOnce, Key: b.RequestID}
	for _, d := range b.Decisions {
		switch {
		case !d.Approve && d.Reason != "":
			reply.Decision = denyFeedback
			return reply
		case !d.Approve:
			reply.Decision = deny
			return reply
		case d.Remember == "session":
			reply.Decision = allowForRun
		}
	}
	return reply
}

func decisionText(b chat.UserApprovalResponse) string {
	for _, d := range b.Decisions {
		if !d.Approve {
			return strings.TrimSuffix("Denied: "+d.Reason, ": ")
		}
	}
	return "Allowed."
}

func permissionText(b chat.UserPermissionResponse) string {
	if len(b.Granted) == 0 {
		return "Denied."
	}
	return "Granted: " + strings.Join(b.Granted, ", ")
}

// planDetails is a whole plan.
type planDetails struct {
	Plan    []planTask `json:"plan"`
	Comment string     `json:"comment,omitempty"`
}

// planTask is one task of a plan. Its id is never 0, which the UI takes for no id.
type planTask struct {
	ID           int      `json:"id"`
	Goal         string   `json:"goal"`
	Instructions []string `json:"instructions,omitempty"`
	Comment      string   `json:"comment,omitempty"`
	Status       string   `json:"status,omitempty"`
}

func planOf(b chat.AgentPlan) []planTask {
	tasks := make([]planTask, len(b.Tasks))
	for i, t := range b.Tasks {
		tasks[i] = planTask{ID: i + 1, Goal: cmp.Or(t.Title, t.ID), Status: t.Status}
		if t.Detail != "" {
			tasks[i].Instructions = []string{t.Detail}
		}
		switch t.Status {
		case "done":
			tasks[i].Status = "completed"
		case "failed":
			tasks[i].Status, tasks[i].Comment = "skipped", "failed"
		case "pending", "in_progress", "skipped", "completed":
		default:
			tasks[i].Status = "pending"
		}
	}
	return tasks
}

func planText(b chat.AgentPlan) string {
	if b.Comment != "" {
		return b.Comment
	}
	done := 0
	for _, t := range planOf(b) {
		if t.Status == "completed" {
			done++
		}
	}
	return fmt.Sprintf("Plan: %d of %d done.", done, len(b.Tasks))
}

func artifactDetails(b chat.AgentArtifact) details {
	d := details{Class: "artifact_updated", Path: b.Path}
	if b.Path != "" {
		d.OutputFiles = []string{b.Path}
	}
	if b.Data != nil || b.Path == "" {
		d.Artifact = b
	}
	return d
}

// questionDetails are the details of a person's message. The metadata that the
// client sent with it come back unchanged.
func questionDetails(e *chat.Event, b chat.UserMessage) details {
	d := details{Ack: e.ClientID, Metadata: b.Context}
	var files []string
	for _, p := range b.Content {
		if p.Type != "text" {
			files = append(files, cmp.Or(p.Path, p.Name, p.URL))
		}
	}
	if files != nil {
		d.Files = files
	}
	return d
}

func namesOf(parts []chat.Part) string {
	var names []string
	for _, p := range parts {
		if p.Type != "text" {
			names = append(names, cmp.Or(p.Name, p.Path, p.Type))
		}
	}
	return strings.Join(names, ", ")
}
