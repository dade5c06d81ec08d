package x1

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Types of the events with which a sidecar comes and goes. They carry an epoch:
// one more than that of the sidecar before. An epoch is taken once, and what
// carries an older one is refused, so that a sidecar which was cut off and
// replaced can do no harm when it comes back.
const (
	AttachedType = "x1.sidecar.attached"
	DetachedType = "x1.sidecar.detached"
)

// Attached is the payload of both.
type Attached struct {
	Epoch    int64  `json:"epoch"`
	Instance string `json:"instance,omitempty"` // a name of the process, for people
}

// recallEpoch reads the newest epoch from the log.
func (d *Dialect) recallEpoch(ctx context.Context, id chat.SessionID, at *attended) error {
	facts, _, err := d.opt.Sessions.Read(ctx, chat.Trusted, id, chat.Range{Limit: 1, Desc: true, Types: []string{AttachedType}})
	if err != nil || len(facts) == 0 {
		return err
	}
	e, err := facts[0].Event()
	if err != nil {
		return err
	}
	var a Attached
	if err := json.Unmarshal(e.Payload, &a); err == nil {
		at.epoch, at.epochKey = a.Epoch, e.ClientID
	}
	return nil
}

// fenced reports why a message comes too late; old publishers carry no epoch and
// are not asked.
func (at *attended) fenced(m *Message) error {
	late := m.Epoch < at.epoch
	if m.Type == AttachedType {
		late = m.Epoch <= at.epoch && m.ClientID != at.epochKey
	}
	if m.Epoch == 0 || !late {
		return nil
	}
	return chat.Errorf(chat.Conflict, "another sidecar has this session (epoch %d); one with epoch %d has no say in it any more", at.epoch, m.Epoch).With("epoch", at.epoch).WithReason(chat.EpochSuperseded)
}

// attach appends the event with which a sidecar begins: the epoch counts only
// when it is stored.
func (in *intake) attach(ctx context.Context, a *arrival, c chat.Caller, m *Message, draft chat.Draft) {
	in.flush(ctx)
	in.caller = c
	var said Attached
	if json.Unmarshal(m.Payload, &said) != nil || said.Epoch != m.Epoch || m.ClientID == "" {
		in.d.refuse(ctx, a, chat.Errorf(chat.Invalid, "%s needs a client_id, and the same epoch in envelope and payload", AttachedType))
		return
	}
	events, err := in.append(ctx, []chat.Draft{draft})
	if err != nil {
		in.d.refuse(ctx, a, err)
		return
	}
	in.at.epoch, in.at.epochKey = m.Epoch, m.ClientID
	in.d.accepted(a, &events[0])
}
