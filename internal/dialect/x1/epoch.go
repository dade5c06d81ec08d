package x1

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Types of the events with which a sidecar attaches and detaches. They carry an epoch:
// one more than that of the sidecar before. An epoch is accepted once, and messages with
// an older one are refused, so that a replaced sidecar that reconnects cannot write.
const (
	AttachedType = "x1.sidecar.attached"
	DetachedType = "x1.sidecar.detached"
)

// Attached is the payload of both types.
type Attached struct {
	Epoch    int64  `json:"epoch"`
	Instance string `json:"instance,omitempty"` // names the process, for people
}

// recallEpoch reads the newest epoch from the log.
func (d *Dialect) recallEpoch(ctx context.Context, id chat.SessionID, at *sidecarSession) error {
	for e, err := range d.opt.Sessions.Events(ctx, chat.Trusted, id, chat.Range{Limit: 1, Desc: true, Types: []string{AttachedType}}) {
		if err != nil {
			return err
		}
		var a Attached
		if json.Unmarshal(e.Payload, &a) == nil {
			at.epoch, at.epochKey = a.Epoch, e.ClientID
		}
	}
	return nil
}

// checkEpoch returns an error for a message of a replaced sidecar. Messages without an
// epoch are not checked.
func (at *sidecarSession) checkEpoch(m *Message) error {
	late := m.Epoch < at.epoch
	if m.Type == AttachedType {
		var a Attached
		if json.Unmarshal(m.Payload, &a) != nil || a.Epoch != m.Epoch || m.ClientID == "" {
			return chat.Errorf(chat.Invalid, "%s needs a client_id, and the same epoch in envelope and payload", AttachedType)
		}
		late = m.Epoch <= at.epoch && m.ClientID != at.epochKey
	}
	if m.Epoch == 0 || !late {
		return nil
	}
	return chat.Errorf(chat.Conflict, "another sidecar has this session (epoch %d); the sidecar with epoch %d was replaced", at.epoch, m.Epoch).With("epoch", at.epoch).WithReason(chat.EpochSuperseded)
}
