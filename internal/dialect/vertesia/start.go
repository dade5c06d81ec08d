package vertesia

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
)

// startPayload is the body that starts a run.
type startPayload struct {
	Interaction string          `json:"interaction"`
	Data        json.RawMessage `json:"data"`
	Interactive *bool           `json:"interactive"`
	Title       string          `json:"title"`
	Process     json.RawMessage `json:"process_id"`
	Definition  json.RawMessage `json:"process_definition"`
	RunType     string          `json:"run_type"`
	RunKind     string          `json:"run_kind"`
	WorkflowID  string          `json:"workflow_id"`
	FirstRun    string          `json:"first_workflow_run_id"`
}

// neverKept are the keys of a payload that are not stored with the run: secrets,
// and what the session has in other fields.
var neverKept = map[string]bool{"data": true, "title": true, "auth_token": true, "started_by": true, "id": true}

// maxKept bounds what is stored of a payload, well below the limit of metadata.
const maxKept = 24 << 10

// decodeStart reads the payload, and as meta the part of it that is stored with the run.
func decodeStart(b []byte) (p startPayload, kept meta, err error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return p, nil, chat.Errorf(chat.Invalid, "a run is begun with {interaction, data}")
	}
	if err := decode(b, &p); err != nil {
		return p, nil, err
	}
	if truthy(p.Process) != nil || truthy(p.Definition) != nil || p.RunKind == "process" || p.RunType != "" && p.RunType != "autonomous" {
		return p, nil, chat.Errorf(chat.Invalid, "this server runs agents, not processes: leave process_id, process_definition and run_type away")
	}
	if strings.TrimSpace(p.Interaction) == "" {
		return p, nil, chat.Errorf(chat.Invalid, "interaction is missing: it names the agent that answers, such as demo")
	}
	if len(p.Interaction) > 256 || len(p.Title) > chat.MaxTitle {
		return p, nil, chat.Errorf(chat.Invalid, "interaction has at most 256 bytes, title at most %d", chat.MaxTitle)
	}
	if err := edge.Decode(b, &kept); err != nil {
		return p, nil, err
	}
	for key := range kept {
		if neverKept[key] || key == "" {
			delete(kept, key)
		}
	}
	if data := truthy(p.Data); data != nil {
		kept["data"] = data
	}
	kept.shrink()
	return p, kept, nil
}

// firstMessage is the first message of a run: user_prompt, else task, else the only
// text in the data, else the data itself.
func firstMessage(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil || len(fields) == 0 {
		return ""
	}
	for _, key := range []string{"user_prompt", "task"} {
		if json.Unmarshal(fields[key], &text) == nil && text != "" {
			return text
		}
	}
	texts := 0
	for _, v := range fields {
		var s string
		if json.Unmarshal(v, &s) == nil && s != "" {
			text = s
			texts++
		}
	}
	if texts == 1 {
		return text
	}
	return string(data)
}

// startRun starts a run: a session with the agent that the interaction names, and
// a first message from the data.
func (d *Dialect) startRun(r *http.Request, c chat.Caller) (any, error) {
	b, err := d.http.Body(r)
	if err != nil {
		return nil, err
	}
	sess, p, err := d.start(r.Context(), c, b)
	if err != nil {
		return nil, err
	}
	out, err := d.describe(r.Context(), c, &sess)
	if firstMessage(p.Data) != "" {
		out.Status, out.Activity = runRunning, "working"
	}
	return out, err
}

// start creates the session of a run and appends its first message.
func (d *Dialect) start(ctx context.Context, c chat.Caller, b []byte) (chat.Session, startPayload, error) {
	p, kept, err := decodeStart(b)
	if err != nil {
		return chat.Session{}, p, err
	}
	first := firstMessage(p.Data)
	if first == "" && kept.once() {
		return chat.Session{}, p, chat.Errorf(chat.Invalid, "a run that is not interactive needs data to work on, such as {\"user_prompt\": \"…\"}")
	}
	settings, err := settingsOf(chat.Settings{}, kept)
	if err != nil {
		return chat.Session{}, p, err
	}
	settings.CompleteAfterTurn = kept.once()
	sess, err := d.create(ctx, c, chat.NewSession{Agent: d.agentOf(c, p.Interaction), Title: p.Title, Settings: settings}, kept)
	if err != nil || first == "" {
		return sess, p, err
	}
	return sess, p, d.append(ctx, c, sess.ID, chat.NewDraft(chat.UserMessage{Text: first}))
}

func (d *Dialect) create(ctx context.Context, c chat.Caller, n chat.NewSession, kept meta) (sess chat.Session, err error) {
	if n.Metadata, err = kept.into(nil); err != nil {
		return sess, err
	}
	sess, _, err = d.opt.Sessions.Create(ctx, c, n)
	return sess, err
}

// agentOf is the agent that an interaction names, "" for the default agent.
func (d *Dialect) agentOf(c chat.Caller, interaction string) string {
	if slices.Contains(d.opt.Agents(c.In()), interaction) {
		return interaction
	}
	return ""
}

// recordRun starts a run whose agent runs outside of this server and posts updates.
func (d *Dialect) recordRun(r *http.Request, c chat.Caller) (any, error) {
	b, err := d.http.Body(r)
	if err != nil {
		return nil, err
	}
	p, kept, err := decodeStart(b)
	if err != nil {
		return nil, err
	}
	sess, err := d.create(r.Context(), c, chat.NewSession{Agent: chat.NoAgent, Title: p.Title}, kept)
	if err != nil {
		return nil, err
	}
	return d.describeID(r.Context(), c, sess.ID)
}

// executeWorkflow starts a run by its older address: vars holds the payload of a
// start, or only the data.
func (d *Dialect) executeWorkflow(r *http.Request, c chat.Caller) (any, error) {
	var in struct {
		Vars map[string]json.RawMessage `json:"vars"`
	}
	if err := d.http.Read(r, &in); err != nil {
		return nil, err
	}
	payload := in.Vars
	if truthy(payload["interaction"]) == nil {
		if payload == nil {
			payload = map[string]json.RawMessage{}
		}
		data, err := json.Marshal(payload)
		if err != nil {
			return nil, err
		}
		payload = map[string]json.RawMessage{"data": data, "interaction": json.AppendString(nil, r.PathValue("name"))}
	}
	b, err := json.Marshal(payload)
	if err != nil {
		return nil, err
	}
	sess, _, err := d.start(r.Context(), c, b)
	return []map[string]string{{"run_id": string(sess.ID), "workflow_id": string(sess.ID)}}, err
}
