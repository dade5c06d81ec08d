package letta

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
	"github.com/parley-hq/parley/internal/llm"
)

// items returns a page of messages as clients see them.
func (l *messageQuery) items(messages []llm.Message) []stream.Item {
	out := make([]stream.Item, 0, len(messages))
	for i := range messages {
		if l.group == "" || messages[i].GroupID == l.group {
			out = append(out, stream.Expand(&messages[i], l.summaries)...)
		}
	}
	if l.kinds == nil {
		return out
	}
	return slices.DeleteFunc(out, func(it stream.Item) bool { return !slices.Contains(l.kinds, it.Kind) })
}

// listConversationMessages lists a conversation. after and before are positions in the order of the list, so that a
// client reaches the end in both orders.
func (d *Dialect) listConversationMessages(r *http.Request, c chat.Caller) (any, error) {
	q := newQuery(r)
	list, agentID := q.messages("desc"), q.Text("agent_id")
	if err := q.err(); err != nil {
		return nil, err
	}
	cv, err := d.conversation(r.Context(), c, r.PathValue("conversation"), agentID)
	if err != nil {
		return nil, err
	}
	lq := llm.Query{After: list.after, Before: list.before, Limit: list.limit, Desc: list.asc == list.backwards()}
	if !list.asc {
		lq.After, lq.Before = list.before, list.after
	}
	for _, id := range []string{list.after, list.before} {
		if _, ok := llm.SeqOf(id); id != "" && !ok {
			return nil, errNotFound("message", id)
		}
	}
	page, err := d.messages(r.Context(), c, cv, lq)
	if list.backwards() {
		slices.Reverse(page.Messages)
	}
	return list.items(page.Messages), err
}

// listAgentMessages lists the messages of an agent. As with Letta's server, after means newer and before means older in
// both orders, and a page has the oldest message first: desc selects the newest ones.
func (d *Dialect) listAgentMessages(r *http.Request, c chat.Caller) (any, error) {
	ctx, q := r.Context(), newQuery(r)
	list, id := q.messages("desc"), q.Text("conversation_id")
	if err := q.err(); err != nil {
		return nil, err
	}
	_, rec, _, err := d.findAgent(ctx, c, r.PathValue("agent"))
	if err != nil {
		return nil, err
	}
	conversations, err := d.conversationsOf(ctx, c, rec.ID, id)
	if err != nil {
		return nil, err
	}
	page, err := d.mergedMessages(ctx, c, conversations, &list)
	return list.items(page), err
}

// listAllMessages lists the messages of all agents in recent conversations. after means newer and before means older; the
// newest message is first by default.
func (d *Dialect) listAllMessages(r *http.Request, c chat.Caller) (any, error) {
	ctx, q := r.Context(), newQuery(r)
	list, agents, id := q.messages("desc"), q.All("agent_id"), q.Text("conversation_id")
	if err := q.err(); err != nil {
		return nil, err
	}
	conversations, err := d.selectConversations(ctx, c, agents, id, false)
	if err != nil {
		return nil, err
	}
	page, err := d.mergedMessages(ctx, c, conversations, &list)
	if !list.asc {
		slices.Reverse(page)
	}
	return list.items(page), err
}

// mergedMessages returns a page of messages of several conversations, the oldest first.
func (d *Dialect) mergedMessages(ctx context.Context, c chat.Caller, conversations []*conversation, l *messageQuery) ([]llm.Message, error) {
	after, err := d.mark(ctx, c, l.after)
	if err != nil {
		return nil, err
	}
	before, err := d.mark(ctx, c, l.before)
	if err != nil {
		return nil, err
	}
	var all []locatedMessage
	for _, cv := range conversations {
		lq := llm.Query{Limit: l.limit, Desc: !l.asc}
		if lq.After, err = d.markIn(ctx, c, cv, after, true); err != nil {
			return nil, err
		}
		if lq.Before, err = d.markIn(ctx, c, cv, before, false); err != nil {
			return nil, err
		}
		page, err := d.messages(ctx, c, cv, lq)
		if err != nil {
			return nil, err
		}
		if !l.asc {
			slices.Reverse(page.Messages)
			slices.Reverse(page.Places)
		}
		for i := range page.Messages {
			all = append(all, locatedMessage{&page.Messages[i], cv, page.Places[i]})
		}
	}
	slices.SortStableFunc(all, func(x, y locatedMessage) int {
		return comparePositions(x.at, x.session, y.at, y.session)
	})
	if drop := len(all) - l.limit; drop > 0 && l.asc {
		all = all[:l.limit]
	} else if drop > 0 {
		all = all[drop:]
	}
	out := make([]llm.Message, len(all))
	for i := range all {
		out[i] = *all[i].Message
	}
	return out, nil
}

// locatedMessage is a message with its conversation and its position there.
type locatedMessage struct {
	*llm.Message
	*conversation
	at chat.At
}

// mark returns the message that after or before names, nil when id is "".
func (d *Dialect) mark(ctx context.Context, c chat.Caller, id string) (*locatedMessage, error) {
	if id == "" {
		return nil, nil
	}
	return d.findMessage(ctx, c, id)
}

// markIn returns a mark for llm.Query in a conversation. In another conversation than its own the mark is the first event
// after the message or, for the value after, the last one before.
func (d *Dialect) markIn(ctx context.Context, c chat.Caller, cv *conversation, m *locatedMessage, after bool) (string, error) {
	switch {
	case m == nil:
		return "", nil
	case m.session == cv.session:
		return m.Message.ID, nil
	}
	sess, err := d.opt.Sessions.Get(ctx, c, cv.session)
	if err != nil {
		return "", err
	}
	low, high := chat.Seq(1), sess.Last+1 // binary search for the first event after the message
	for low < high {
		mid := (low + high) / 2
		e, err := d.event(ctx, c, cv.session, mid)
		if err != nil {
			return "", err
		}
		if comparePositions(e.At, cv.session, m.at, m.session) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if after {
		low--
	}
	return seqMark(low), nil
}

// seqMark is the number of an event as a mark for llm.Query.
func seqMark(seq chat.Seq) string { return strconv.FormatUint(uint64(seq), 10) }

// findMessage returns the message with an id.
func (d *Dialect) findMessage(ctx context.Context, c chat.Caller, id string) (*locatedMessage, error) {
	sess, seq, err := d.eventByID(ctx, c, "message", llm.IDPrefix, id)
	if err != nil {
		return nil, err
	}
	cv, err := d.conversationOf(ctx, c, &sess)
	if err != nil {
		return nil, err
	}
	// A message that waited for a turn is listed after other messages than its event.
	for limit := 8; limit <= 512; limit *= 8 {
		page, err := d.messages(ctx, c, cv, llm.Query{After: seqMark(seq - 1), Limit: limit})
		if err != nil {
			return nil, err
		}
		for i := range page.Messages {
			if page.Messages[i].ID == id {
				return &locatedMessage{&page.Messages[i], cv, page.Places[i]}, nil
			}
		}
	}
	return nil, errNotFound("message", id)
}

func (d *Dialect) getMessage(r *http.Request, c chat.Caller) (any, error) {
	m, err := d.findMessage(r.Context(), c, r.PathValue("message"))
	if err != nil {
		return nil, err
	}
	return stream.Expand(m.Message, false), nil
}
