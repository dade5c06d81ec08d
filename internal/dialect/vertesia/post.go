package vertesia

import (
	"context"
	"math"
	"net/http"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// postUpdate appends a message of an agent that runs outside of this server.
func (d *Dialect) postUpdate(r *http.Request, c chat.Caller, sess run) (any, error) {
	b, err := d.http.Body(r)
	if err != nil {
		return nil, err
	}
	m, err := decodePosted(b)
	if err != nil {
		return nil, err
	}
	if m.W == "" {
		m.W = sess.workstream
	}
	if m.T == StreamingChunk {
		err = d.postChunk(r.Context(), c, sess.ID, m)
	} else {
		err = d.postMessage(r.Context(), c, sess.ID, m)
	}
	return map[string]bool{"success": true}, err
}

// postMessage stores a message as the event that it becomes.
func (d *Dialect) postMessage(ctx context.Context, c chat.Caller, id chat.SessionID, m compactMessage) error {
	draft, err := draftOf(m)
	if err != nil {
		return err
	}
	if err := draft.Normalize(); err != nil {
		return err
	}
	drafts := []chat.Draft{draft}
	if block := chat.FinishedBlock(draft.Body); block != "" {
		defer d.lock.Lock(string(id))()
		open, err := d.openBlock(ctx, c, id, block)
		if err != nil {
			return err
		}
		if open != nil {
			if drafts, err = finishBlock(draft, open); err != nil {
				return err
			}
		}
	}
	_, err = d.opt.Sessions.Append(ctx, c, id, drafts)
	return err
}

// openBlock returns an open block of a session with all chunks that were accepted, or nil.
func (d *Dialect) openBlock(ctx context.Context, c chat.Caller, id chat.SessionID, block chat.BlockID) (*chat.Block, error) {
	if _, err := d.opt.Sessions.GetAtPosition(ctx, c, id, math.MaxInt64); err != nil {
		return nil, err
	}
	open, err := d.opt.Sessions.Blocks(ctx, c, id)
	if err != nil {
		return nil, err
	}
	for i := range open {
		if open[i].ID == block {
			return &open[i], nil
		}
	}
	return nil, nil
}

// finishBlock ends the block whose chunks a posted message replaces. Text that
// readers have seen is never withdrawn: when the message has another text, the
// block ends with what was shown, and the message follows without a block.
func finishBlock(draft chat.Draft, open *chat.Block) ([]chat.Draft, error) {
	var body chat.Body
	extends := false
	switch b := draft.Body.(type) {
	case chat.AgentText:
		extends = open.Kind == chat.TextBlock && strings.HasPrefix(b.Text, open.Text)
		b.Block = ""
		body = b
	case chat.AgentThinking:
		extends = open.Kind == chat.ThinkingBlock && strings.HasPrefix(b.Text, open.Text)
		b.Block = ""
		body = b
	}
	if extends {
		return []chat.Draft{draft}, nil
	}
	shown := chat.NewDraft(chat.AgentText{Block: open.ID, Text: open.Text, Partial: true})
	if open.Kind == chat.ThinkingBlock {
		shown = chat.NewDraft(chat.AgentThinking{Block: open.ID, Text: open.Text, Partial: true})
	}
	shown.Workstream, shown.Via = open.Workstream, via
	var original struct {
		Posted json.RawMessage `json:"vertesia"`
	}
	if err := json.Unmarshal(draft.Payload, &original); err != nil {
		return nil, err
	}
	payload, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	draft.Payload, draft.Body = withPosted(payload, original.Posted), nil
	return []chat.Draft{shown, draft}, nil
}

// postChunk appends a chunk to its block. Chunks have no offsets; their order is
// that of the requests.
func (d *Dialect) postChunk(ctx context.Context, c chat.Caller, id chat.SessionID, m compactMessage) error {
	if m.M == "" {
		return nil // the message that ends the stream follows
	}
	var known knownDetails
	_ = json.Unmarshal(m.D, &known) // details of another form name no block
	p := chat.Preview{Block: blockOf(m, &known), Text: m.M, AtEnd: true, Workstream: m.W, Kind: chat.TextBlock}
	if p.Block == "" {
		p.Block = "chunks"
	}
	return d.opt.Sessions.Preview(ctx, c, id, []chat.Preview{p})
}

// telemetry stores what a worker reports about itself.
func (d *Dialect) telemetry(r *http.Request, c chat.Caller, sess run) (any, error) {
	var in struct {
		Events []json.RawMessage `json:"events"`
	}
	if err := d.http.Read(r, &in); err != nil {
		return nil, err
	}
	if len(in.Events) > 0 {
		if err := d.append(r.Context(), c, sess.ID, dialectDraft(typeTelemetry, in)); err != nil {
			return nil, err
		}
	}
	return map[string]int{"ingested": len(in.Events)}, nil
}

// append appends drafts of this dialect to a session.
func (d *Dialect) append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts ...chat.Draft) error {
	for i := range drafts {
		drafts[i].Via = via
	}
	_, err := d.opt.Sessions.Append(ctx, c, id, drafts)
	return err
}
