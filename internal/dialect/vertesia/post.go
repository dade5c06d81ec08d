package vertesia

import (
	"context"
	"net/http"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// posted is a message that somebody posted in this protocol, kept beside what it
// means, so that readers here get it back word for word.
type posted struct {
	T Type            `json:"t"`
	M string          `json:"m,omitempty"`
	D json.RawMessage `json:"d,omitempty"`
}

// postUpdate takes a message of an agent that runs elsewhere.
func (d *Dialect) postUpdate(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	b, err := d.body(r)
	if err != nil {
		return err
	}
	m, err := decodePosted(b)
	if err != nil {
		return err
	}
	sess, err := d.run(r, c)
	if err != nil {
		return err
	}
	if sess.line != "" && m.W == "" {
		m.W = sess.line
	}
	if m.T == StreamingChunk {
		err = d.postChunk(r.Context(), c, sess.ID, m)
	} else {
		err = d.postMessage(r.Context(), c, sess.ID, m)
	}
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, map[string]bool{"success": true})
	return nil
}

// decodePosted reads a message to be posted: either form; one without a type is
// an update.
func decodePosted(b []byte) (CompactMessage, error) {
	b = unquoted(b)
	var keys struct {
		T       json.RawMessage `json:"t"`
		Type    json.RawMessage `json:"type"`
		Details json.RawMessage `json:"details"`
	}
	if err := decode(b, &keys); err != nil {
		return CompactMessage{}, err
	}
	if keys.T != nil {
		m, err := ParseMessage(b)
		if err == nil && (m.T < System || m.T > Restarting) {
			err = chat.Errorf(chat.Invalid, "t is a number from 0 to 14")
		}
		return m, err
	}
	var old AgentMessage
	if err := old.UnmarshalJSON(b); err != nil {
		return CompactMessage{}, err
	}
	m := ToCompactMessage(old)
	if string(keys.Type) == "14" {
		m.T = Restarting // the older form has no word for it, but means it
	}
	if m.T == StreamingChunk {
		// Which stream it belongs to does not survive the conversion.
		m.D = truthy(keys.Details)
	}
	return m, nil
}

// postMessage stores a message as what it means, together with its own words.
func (d *Dialect) postMessage(ctx context.Context, c chat.Caller, id chat.SessionID, m CompactMessage) error {
	draft, err := draftOf(m)
	if err != nil {
		return err
	}
	drafts := []chat.Draft{draft}
	if draft.Body == nil {
		if err := draft.Settle(); err != nil {
			return err
		}
	}
	if block := chat.FinishedBlock(draft.Body); block != "" {
		release := d.lock.hold(id)
		defer release()
		if drafts, err = d.finish(ctx, c, id, draft, block); err != nil {
			return err
		}
	}
	_, err = d.opt.Sessions.Append(ctx, c, id, drafts)
	return err
}

// finish ends the block whose chunks a posted message replaces. What was shown
// is never taken back: when the message says something else, the block is
// ended as it was shown, and the message stands on its own.
func (d *Dialect) finish(ctx context.Context, c chat.Caller, id chat.SessionID, draft chat.Draft, block chat.BlockID) ([]chat.Draft, error) {
	open, err := d.opt.Sessions.Blocks(ctx, c, id)
	if err != nil {
		return nil, err
	}
	for _, b := range open {
		if b.ID != block {
			continue
		}
		var shown chat.Body = chat.AgentText{Block: block, Text: b.Text, Partial: true}
		switch said := draft.Body.(type) {
		case chat.AgentText:
			if strings.HasPrefix(said.Text, b.Text) && b.Kind == chat.TextBlock {
				return []chat.Draft{draft}, nil
			}
			said.Block = ""
			draft.Body = said
		case chat.AgentThinking:
			if strings.HasPrefix(said.Text, b.Text) && b.Kind == chat.ThinkingBlock {
				return []chat.Draft{draft}, nil
			}
			said.Block = ""
			draft.Body = said
		}
		if b.Kind == chat.ThinkingBlock {
			shown = chat.AgentThinking{Block: block, Text: b.Text, Partial: true}
		}
		first := chat.NewDraft(shown)
		first.Workstream, first.Via = b.Workstream, via
		own := draft.Payload
		if draft, err = draft.WithBody(draft.Body); err != nil {
			return nil, err
		}
		if draft.Payload, err = withPosted(draft.Payload, own); err != nil {
			return nil, err
		}
		draft.Body = nil // read again from the payload
		return []chat.Draft{first, draft}, nil
	}
	return []chat.Draft{draft}, nil
}

// withPosted adds the message's own words, as they stand in another payload.
func withPosted(payload, from json.RawMessage) (json.RawMessage, error) {
	var own struct {
		Vertesia json.RawMessage `json:"vertesia"`
	}
	if err := json.Unmarshal(from, &own); err != nil {
		return nil, malformed(err)
	}
	return join(payload, own.Vertesia), nil
}

// join adds the key vertesia to an object.
func join(object, own []byte) json.RawMessage {
	b := append(make([]byte, 0, len(object)+len(own)+16), object[:len(object)-1]...)
	if len(b) > 1 {
		b = append(b, ',')
	}
	return append(append(append(b, `"vertesia":`...), own...), '}')
}

// postChunk shows a chunk. Chunks have no offsets, so they are put behind each
// other in the order in which they come.
func (d *Dialect) postChunk(ctx context.Context, c chat.Caller, id chat.SessionID, m CompactMessage) error {
	if m.M == "" {
		return nil // the end of a stream without text: its final message ends it
	}
	var known knownDetails
	_ = json.Unmarshal(m.D, &known) // details are open
	block := blockOf(m, &known)
	if block == "" {
		block = "chunks"
	}
	release := d.lock.hold(id)
	defer release()
	open, err := d.opt.Sessions.Blocks(ctx, c, id)
	if err != nil {
		return err
	}
	p := chat.Preview{Block: block, Text: m.M, Workstream: m.W, Kind: chat.TextBlock}
	for _, b := range open {
		if b.ID == block {
			p.Offset = len(b.Text)
		}
	}
	return d.opt.Sessions.Preview(ctx, c, id, []chat.Preview{p})
}

// telemetry keeps what a worker reports of itself.
func (d *Dialect) telemetry(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var in struct {
		Events []json.RawMessage `json:"events"`
	}
	if err := d.read(r, &in); err != nil {
		return err
	}
	sess, err := d.run(r, c)
	if err != nil {
		return err
	}
	if len(in.Events) > 0 {
		draft, err := ownDraft(typeTelemetry, in)
		if err != nil {
			return err
		}
		if _, err := d.opt.Sessions.Append(r.Context(), c, sess.ID, []chat.Draft{draft}); err != nil {
			return err
		}
	}
	d.send(w, r, http.StatusOK, map[string]int{"ingested": len(in.Events)})
	return nil
}
