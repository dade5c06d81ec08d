package letta

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// listQuery is what can be asked of a list of messages.
type listQuery struct {
	after, before string
	limit         int
	asc           bool
	types         []string
	group         string
	form          form
}

func (q *query) messages(order string) listQuery {
	l := listQuery{
		after: q.text("after"), before: q.text("before"), limit: q.limit(100, 1000), asc: q.order(order) == "asc",
		types: q.texts("include_return_message_types"), group: q.text("group_id"),
	}
	q.word("order_by", "created_at")
	l.form = form{
		assistant: q.flag("use_assistant_message", true), tool: q.text("assistant_message_tool_name"), argument: q.text("assistant_message_tool_kwarg"),
		summaries: q.flag("include_compaction_messages", false),
	}
	for _, t := range l.types {
		if !slices.Contains(kinds, t) {
			q.fail("include_return_message_types=%q is not a type of message", clip(t))
		}
	}
	return l
}

// show expands a page of messages.
func (l *listQuery) show(p *place, messages []llm.Message) []item {
	f := l.form
	f.legacy = p.form.legacy
	if !l.asc {
		// A call comes before what came of it, whatever the order of the list.
		slices.Reverse(messages)
		defer slices.Reverse(messages)
	}
	messages = f.hideReturns(messages)
	out := make([]item, 0, len(messages)+len(messages)/8)
	for i := range messages {
		m := &messages[i]
		if !l.asc {
			m = &messages[len(messages)-1-i]
		}
		if l.group != "" && m.GroupID != l.group {
			continue
		}
		n := len(out)
		out = appendExpanded(out, m, f)
		if l.types != nil {
			wanted := slices.DeleteFunc(out[n:], func(it item) bool { return !slices.Contains(l.types, it.kind) })
			out = out[:n+len(wanted)]
		}
	}
	return out
}

// listConversationMessages lists a conversation in the order asked for. after
// and before are places in that order, so that a client that goes on behind the
// last message it got reaches the end in both directions.
func (d *Dialect) listConversationMessages(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	q := newQuery(r)
	l := q.messages("desc")
	if q.err != nil {
		return q.err
	}
	p, err := d.conversationPlace(r.Context(), c, r.PathValue("conversation"), q.text("agent_id"))
	if err != nil {
		return err
	}
	page, err := d.listOrdered(r.Context(), c, p, &l)
	if err != nil {
		return err
	}
	d.sendItems(w, r, l.show(p, page))
	return nil
}

// listOrdered reads a page whose marks are places in the order of the list.
func (d *Dialect) listOrdered(ctx context.Context, c chat.Caller, p *place, l *listQuery) ([]llm.Message, error) {
	lq := llm.Query{Options: p.fold(), After: l.after, Before: l.before, Limit: l.limit, Desc: !l.asc}
	if !l.asc {
		lq.After, lq.Before = l.before, l.after
	}
	// Who pages backwards wants the neighbours of the place, not the beginning.
	backwards := l.before != "" && l.after == ""
	if backwards {
		lq.Desc = !lq.Desc
	}
	for name, id := range map[string]string{"after": l.after, "before": l.before} {
		if _, ok := llm.SeqOf(id); id != "" && !ok { // said here, where it has the client's name
			return nil, errNoMark(name, id)
		}
	}
	page, err := llm.List(ctx, log{d, c, p.session}, lq)
	if err != nil {
		return nil, err
	}
	if backwards {
		slices.Reverse(page.Messages)
	}
	return page.Messages, nil
}

func (p *place) fold() llm.Options {
	return llm.Options{AgentID: p.agentID, ConversationID: p.conversation}
}

// listAgentMessages lists what was said to an agent. As with the real server,
// after is newer and before is older whatever the order, and pages are told the
// oldest first: desc only says that the newest are wanted.
func (d *Dialect) listAgentMessages(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	q := newQuery(r)
	l := q.messages("desc")
	if q.err != nil {
		return q.err
	}
	_, rec, err := d.findAgent(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return err
	}
	places, err := d.placesOf(r.Context(), c, rec.ID, q.text("conversation_id"))
	if err != nil {
		return err
	}
	page, err := d.listMerged(r.Context(), c, places, &l)
	if err != nil {
		return err
	}
	l.asc = true
	d.sendItems(w, r, l.show(places[0], page))
	return nil
}

// listAllMessages lists what was said to all agents, over the conversations in
// which something happened last. As in the list of an agent, after is newer and
// before is older; here the newest come first unless asked otherwise.
func (d *Dialect) listAllMessages(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	q := newQuery(r)
	l := q.messages("desc")
	if q.err != nil {
		return q.err
	}
	places, err := d.runPlaces(r.Context(), c, q.texts("agent_id"), q.text("conversation_id"), false)
	if err != nil {
		return err
	}
	page, err := d.listMerged(r.Context(), c, places, &l)
	if err != nil {
		return err
	}
	if !l.asc {
		slices.Reverse(page)
	}
	d.sendItems(w, r, l.show(&place{}, page))
	return nil
}

// placesOf are the conversations of an agent, its default one first; or the one
// that is named.
func (d *Dialect) placesOf(ctx context.Context, c chat.Caller, agentID, conversation string) ([]*place, error) {
	if conversation != "" {
		p, err := d.conversationPlace(ctx, c, conversation, agentID)
		if err != nil {
			return nil, err
		}
		if p.agentID != agentID {
			return nil, chat.Errorf(chat.NotFound, "conversation %q is not one of this agent", clip(conversation))
		}
		return []*place{p}, nil
	}
	home, err := d.agentPlace(ctx, c, agentID)
	if err != nil {
		return nil, err
	}
	places := []*place{home}
	b, err := d.bookOf(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, rec := range b.of(kindConversation) {
		if rec.text("agent_id") != agentID {
			continue
		}
		p, err := d.sessionPlace(ctx, c, chat.SessionID(rec.ID))
		if code := chat.CodeOf(err); code == chat.NotFound || code == chat.Gone {
			continue
		}
		if err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	return places, nil
}

// listMerged reads a page over several conversations, the oldest first.
func (d *Dialect) listMerged(ctx context.Context, c chat.Caller, places []*place, l *listQuery) ([]llm.Message, error) {
	var all []located
	after, err := d.mark(ctx, c, "after", l.after)
	if err != nil {
		return nil, err
	}
	before, err := d.mark(ctx, c, "before", l.before)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		lq := llm.Query{Options: p.fold(), Limit: l.limit, Desc: !l.asc}
		if lq.After, err = d.markIn(ctx, c, p, after, true); err != nil {
			return nil, err
		}
		if lq.Before, err = d.markIn(ctx, c, p, before, false); err != nil {
			return nil, err
		}
		page, err := llm.List(ctx, log{d, c, p.session}, lq)
		if err != nil {
			return nil, err
		}
		if !l.asc {
			slices.Reverse(page.Messages)
			slices.Reverse(page.Places)
		}
		for i := range page.Messages {
			all = append(all, located{&page.Messages[i], p, page.Places[i]})
		}
	}
	slices.SortStableFunc(all, func(x, y located) int { return inOrder(x.at, x.session, y.at, y.session) })
	switch {
	case len(all) <= l.limit:
	case l.asc:
		all = all[:l.limit]
	default:
		all = all[len(all)-l.limit:]
	}
	out := make([]llm.Message, len(all))
	for i := range all {
		out[i] = *all[i].Message
	}
	return out, nil
}

// located is a message, its conversation and when it came there.
type located struct {
	*llm.Message
	*place
	at chat.At
}

// inOrder compares two places in a list over several conversations: by time and,
// because a fork has the times of what it shares, by the conversation.
func inOrder(x chat.At, in chat.SessionID, y chat.At, of chat.SessionID) int {
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(in, of))
}

func errNoMark(name, id string) error {
	return chat.Errorf(chat.NotFound, "%s: there is no message %q, or it is not yours", name, clip(id))
}

// mark finds the message of an id, nil when there is none.
func (d *Dialect) mark(ctx context.Context, c chat.Caller, name, id string) (*located, error) {
	if id == "" {
		return nil, nil
	}
	m, err := d.findMessage(ctx, c, id)
	if chat.CodeOf(err) == chat.NotFound {
		err = errNoMark(name, id)
	}
	return m, err
}

// markIn is a mark as the list of one conversation takes it: in another than its own
// it is the first event that comes after it or, with back, the last before.
func (d *Dialect) markIn(ctx context.Context, c chat.Caller, p *place, m *located, back bool) (string, error) {
	switch {
	case m == nil:
		return "", nil
	case m.session == p.session:
		return m.ID, nil
	}
	sess, err := d.opt.Sessions.Get(ctx, c, p.session)
	if err != nil {
		return "", err
	}
	low, high := chat.Seq(1), sess.Last+1 // the first event after it lies between them
	for low < high {
		mid := (low + high) / 2
		e, err := d.event(ctx, c, p.session, mid)
		if err != nil {
			return "", err
		}
		if inOrder(e.At, p.session, m.at, m.session) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if back {
		low--
	}
	return seqText(low), nil
}

// findMessage finds a message by its id.
func (d *Dialect) findMessage(ctx context.Context, c chat.Caller, id string) (*located, error) {
	nothing := chat.Errorf(chat.NotFound, "there is no message %q, or it is not yours", clip(id))
	sess, seq, err := d.byID(ctx, c, llm.IDPrefix, id, nothing)
	if err != nil {
		return nil, err
	}
	p, err := d.placeOf(ctx, c, &sess)
	if err != nil {
		return nil, err
	}
	// A message comes at its event or behind it, when it waited for a turn.
	for limit := 8; limit <= 512; limit *= 8 {
		page, err := llm.List(ctx, log{d, c, sess.ID}, llm.Query{Options: p.fold(), After: seqText(seq - 1), Limit: limit})
		if err != nil {
			return nil, err
		}
		for i := range page.Messages {
			if page.Messages[i].ID == id {
				return &located{&page.Messages[i], p, page.Places[i]}, nil
			}
		}
	}
	return nil, nothing
}

func (d *Dialect) getMessage(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	m, err := d.findMessage(r.Context(), c, r.PathValue("message"))
	if err != nil {
		return err
	}
	d.sendItems(w, r, expand(m.Message, form{legacy: m.form.legacy, assistant: true}))
	return nil
}
