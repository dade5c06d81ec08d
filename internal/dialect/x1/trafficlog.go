package x1

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// trafficSession has the traffic records, one event each: what sidecars and providers
// publish on x1's audit subjects about the requests they handled. The server's own audit
// log is another one (package audit), in the sessions sys-audit-YEAR-MONTH. x1 calls its
// subjects audit, and the id is part of data folders, so both keep that word.
const trafficSession chat.SessionID = "sys-audit"

// trafficType is the type of these events.
const trafficType = "audit.recorded"

// trafficRecord is one record.
type trafficRecord struct {
	Sequence chat.Seq        `json:"sequence"`
	At       chat.At         `json:"timestamp"`
	Subject  string          `json:"subject"`
	Session  chat.SessionID  `json:"session_id,omitempty"`
	By       *chat.Actor     `json:"by,omitempty"` // the sender, if known
	Record   json.RawMessage `json:"record"`       // as it was published
}

// trafficQuery selects records.
type trafficQuery struct {
	Session chat.SessionID // "" means all
	Subject string         // a prefix
	Before  chat.Seq       // older than that one; 0 means from the newest
	Limit   int
}

// trafficPage is a page of records, the newest first.
type trafficPage struct {
	Records []trafficRecord `json:"records"`
	Next    chat.Seq        `json:"next_before,omitempty"` // 0 at the end
}

// maxRecord bounds a record.
const maxRecord = 256 << 10

// maxScan is how many records one query reads.
const maxScan = 20_000

// recordTraffic stores a record.
func (d *Dialect) recordTraffic(ctx context.Context, a *incoming) {
	draft, err := d.trafficDraft(a)
	var events []chat.Event
	if err == nil {
		err = d.retry(ctx, func() (err error) {
			events, err = d.opt.Sessions.Append(ctx, chat.Trusted, trafficSession, []chat.Draft{draft})
			if chat.CodeOf(err) == chat.NotFound {
				if _, _, err = d.opt.Sessions.Create(ctx, chat.Trusted, chat.NewSession{ID: trafficSession, Agent: chat.NoAgent, Title: "Audit"}); err == nil {
					events, err = d.opt.Sessions.Append(ctx, chat.Trusted, trafficSession, []chat.Draft{draft})
				}
			}
			return err
		})
	}
	if err != nil {
		d.refuse(ctx, a, err)
		return
	}
	d.accepted(a, &events[0])
}

func (d *Dialect) trafficDraft(a *incoming) (chat.Draft, error) {
	if len(a.msg.Data) > maxRecord {
		return chat.Draft{}, chat.Errorf(chat.TooLarge, "a record has at most %d KiB", maxRecord>>10)
	}
	r := trafficRecord{Subject: a.msg.Subject, Session: a.id, Record: a.msg.Data}
	if a.id != "" {
		r.Subject = Subject(a.id, Traffic)
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
			return chat.Draft{}, chat.Errorf(chat.Invalid, "a record is JSON or text")
		}
		r.Record = json.AppendString(nil, string(a.msg.Data))
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
		return chat.Draft{}, chat.Errorf(chat.Invalid, "a record is JSON or text").Because(err)
	}
	draft := chat.Draft{Type: trafficType, Payload: payload, Via: via}
	return draft, draft.Normalize()
}

// listTraffic lists records. The owner of a session may see those of the session; the whole
// list needs the scope admin for all workspaces.
func (d *Dialect) listTraffic(ctx context.Context, c chat.Caller, q trafficQuery) (trafficPage, error) {
	page := trafficPage{Records: []trafficRecord{}}
	if !c.AdministersAll() {
		if q.Session == "" {
			return page, chat.Errorf(chat.Denied, "the records of all sessions need the scope admin for all workspaces; name one of your sessions")
		}
		sess, err := d.opt.Sessions.Get(ctx, c, q.Session)
		if err != nil {
			return page, err
		}
		if !c.RoleIn(&sess).Includes(chat.Owner) {
			return page, chat.Errorf(chat.Denied, "only the owner of a session may read its records")
		}
		q.Session = sess.ID
	}
	read := 0
	for e, err := range d.opt.Sessions.Events(ctx, chat.Trusted, trafficSession, chat.Range{Before: q.Before, Desc: true, Types: []string{trafficType}}) {
		if chat.CodeOf(err) == chat.NotFound {
			return page, nil // there are no records yet
		}
		if err != nil {
			return page, err
		}
		var r trafficRecord
		if err := json.Unmarshal(e.Payload, &r); err != nil {
			return page, err
		}
		if (q.Session == "" || r.Session == q.Session) && strings.HasPrefix(r.Subject, q.Subject) {
			r.Sequence, r.At = e.Seq, e.At
			page.Records = append(page.Records, r)
		}
		if read++; len(page.Records) == q.Limit || read == maxScan {
			if e.Seq > 1 {
				page.Next = e.Seq
			}
			break
		}
	}
	return page, nil
}
