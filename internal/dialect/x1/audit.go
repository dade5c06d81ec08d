package x1

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// AuditSession is where audit records are kept: one event each.
const AuditSession chat.SessionID = "sys-audit"

// auditType is the type of those events.
const auditType = "audit.recorded"

// AuditRecord is one record.
type AuditRecord struct {
	Sequence chat.Seq        `json:"sequence"`
	At       chat.At         `json:"timestamp"`
	Subject  string          `json:"subject"`
	Session  chat.SessionID  `json:"session_id,omitempty"`
	By       *chat.Actor     `json:"by,omitempty"` // who published it, where that is known
	Record   json.RawMessage `json:"record"`       // as it was published
}

// AuditQuery narrows what is listed.
type AuditQuery struct {
	Session chat.SessionID // "" means all
	Subject string         // a prefix
	Before  chat.Seq       // older than that one; 0 means from the newest
	Limit   int
}

// AuditPage is a part of the audit log, the newest first.
type AuditPage struct {
	Records []AuditRecord `json:"records"`
	Next    chat.Seq      `json:"next_before,omitempty"` // 0 at the end
}

// maxRecord bounds an audit record.
const maxRecord = 256 << 10

// maxScan is how many records one query looks at.
const maxScan = 20_000

// audited keeps audit records.
func (d *Dialect) audited(ctx context.Context, run []arrival) {
	drafts := make([]chat.Draft, 0, len(run))
	kept := make([]*arrival, 0, len(run))
	for i := range run {
		a := &run[i]
		draft, err := d.auditDraft(a)
		if err != nil {
			d.refuse(ctx, a, err)
			continue
		}
		drafts, kept = append(drafts, draft), append(kept, a)
	}
	if len(drafts) == 0 {
		return
	}
	var events []chat.Event
	err := d.steady(ctx, func() (err error) {
		events, err = d.opt.Sessions.Append(ctx, chat.Trusted, AuditSession, drafts)
		if chat.CodeOf(err) == chat.NotFound {
			if _, _, err = d.opt.Sessions.Create(ctx, chat.Trusted, chat.NewSession{ID: AuditSession, Agent: chat.NoAgent, Title: "Audit"}); err == nil {
				events, err = d.opt.Sessions.Append(ctx, chat.Trusted, AuditSession, drafts)
			}
		}
		return err
	})
	for i, a := range kept {
		if err != nil {
			d.refuse(ctx, a, err)
			continue
		}
		d.accepted(a, &events[i])
	}
}

func (d *Dialect) auditDraft(a *arrival) (chat.Draft, error) {
	if len(a.msg.Data) > maxRecord {
		return chat.Draft{}, chat.Errorf(chat.TooLarge, "an audit record has at most %d KiB", maxRecord>>10)
	}
	r := AuditRecord{Subject: a.msg.Subject, Session: a.id, Record: a.msg.Data}
	if a.id != "" {
		r.Subject = Subject(a.id, Audit)
	}
	if a.guest {
		c, err := d.caller(a)
		if err != nil {
			return chat.Draft{}, err
		}
		r.By = &c.Actor
	}
	if wire.CheckJSON(r.Record, maxDepth) != nil {
		if !utf8.Valid(r.Record) {
			return chat.Draft{}, chat.Errorf(chat.Invalid, "an audit record is JSON or text")
		}
		r.Record = chat.AppendString(nil, string(a.msg.Data))
	}
	var named struct {
		Session chat.SessionID `json:"session_id"`
	}
	if json.Unmarshal(r.Record, &named) == nil && named.Session != "" {
		if a.id != "" && named.Session != a.id {
			return chat.Draft{}, chat.Errorf(chat.Invalid, "the record names another session than the subject it came on")
		}
		r.Session = named.Session
	}
	payload, err := json.Marshal(struct {
		Subject string          `json:"subject"`
		Session chat.SessionID  `json:"session_id,omitempty"`
		By      *chat.Actor     `json:"by,omitempty"`
		Record  json.RawMessage `json:"record"`
	}{r.Subject, r.Session, r.By, r.Record})
	if err != nil {
		return chat.Draft{}, chat.Errorf(chat.Invalid, "an audit record is JSON or text").Because(err)
	}
	draft := chat.Draft{Type: auditType, Payload: payload, Via: via}
	return draft, draft.Settle()
}

// Audit lists audit records. Those of one session can be seen by its owner; all of
// them need the scope admin for all workspaces.
func (d *Dialect) Audit(ctx context.Context, c chat.Caller, q AuditQuery) (AuditPage, error) {
	page := AuditPage{Records: []AuditRecord{}}
	if !c.AdministersAll() {
		if q.Session == "" {
			return page, chat.Errorf(chat.Denied, "the whole audit log needs the scope admin for all workspaces; name a session of yours")
		}
		sess, err := d.opt.Sessions.Get(ctx, c, q.Session)
		if err != nil {
			return page, err
		}
		if !c.RoleIn(&sess).Includes(chat.Owner) {
			return page, chat.Errorf(chat.Denied, "the audit log of a session is for its owner")
		}
		q.Session = sess.ID
	}
	for looked := 0; ; {
		facts, more, err := d.opt.Sessions.Read(ctx, chat.Trusted, AuditSession, chat.Range{Before: q.Before, Limit: 500, Desc: true, Types: []string{auditType}})
		if chat.CodeOf(err) == chat.NotFound {
			return page, nil // nothing was ever audited
		}
		if err != nil {
			return page, err
		}
		for _, f := range facts {
			e, err := f.Event()
			if err != nil {
				return page, err
			}
			var r AuditRecord
			if err := json.Unmarshal(e.Payload, &r); err != nil {
				return page, err
			}
			q.Before = f.Seq
			looked++
			if (q.Session == "" || r.Session == q.Session) && strings.HasPrefix(r.Subject, q.Subject) {
				r.Sequence, r.At = e.Seq, e.At
				page.Records = append(page.Records, r)
			}
			if len(page.Records) == q.Limit || looked == maxScan {
				if f.Seq > 1 {
					page.Next = f.Seq
				}
				return page, nil
			}
		}
		if !more || len(facts) == 0 {
			return page, nil
		}
	}
}
