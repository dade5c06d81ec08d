package letta

import (
	"slices"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/record"
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
func (q *request) listConversationMessages() (any, error) {
	list := q.messagePage("desc")
	cv, err := q.conversation(q.PathValue("conversation"), q.Text("agent_id"))
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
	page, err := q.messages(cv, lq)
	if list.backwards() {
		slices.Reverse(page.Messages)
	}
	return list.items(page.Messages), err
}

// listAgentMessages lists the messages of an agent. As with Letta's server, after means newer and before means older in
// both orders, and a page has the oldest message first: desc selects the newest ones.
func (q *request) listAgentMessages(rec *record.Record, _ *chat.Session) (any, error) {
	list := q.messagePage("desc")
	conversations, err := q.conversationsOf(rec.ID, q.Text("conversation_id"))
	if err != nil {
		return nil, err
	}
	page, err := q.mergedMessages(conversations, &list)
	return list.items(page), err
}

// listAllMessages lists the messages of all agents in recent conversations. after means newer and before means older; the
// newest message is first by default.
func (q *request) listAllMessages() (any, error) {
	list := q.messagePage("desc")
	conversations, err := q.selectConversations(q.All("agent_id"), q.Text("conversation_id"), false)
	if err != nil {
		return nil, err
	}
	page, err := q.mergedMessages(conversations, &list)
	if !list.asc {
		slices.Reverse(page)
	}
	return list.items(page), err
}

// mergedMessages returns a page of messages of several conversations, the oldest first.
func (q *request) mergedMessages(conversations []*conversation, l *messageQuery) ([]llm.Message, error) {
	after, err := q.mark(l.after)
	if err != nil {
		return nil, err
	}
	before, err := q.mark(l.before)
	if err != nil {
		return nil, err
	}
	var all []locatedMessage
	for _, cv := range conversations {
		lq := llm.Query{Limit: l.limit, Desc: !l.asc}
		if lq.After, err = q.markIn(cv, after, true); err != nil {
			return nil, err
		}
		if lq.Before, err = q.markIn(cv, before, false); err != nil {
			return nil, err
		}
		page, err := q.messages(cv, lq)
		if err != nil {
			return nil, err
		}
		if !l.asc {
			slices.Reverse(page.Messages)
			slices.Reverse(page.Times)
		}
		for i := range page.Messages {
			all = append(all, locatedMessage{&page.Messages[i], cv, page.Times[i]})
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
func (q *request) mark(id string) (*locatedMessage, error) {
	if id == "" {
		return nil, nil
	}
	return q.findMessage(id)
}

// markIn returns a mark for llm.Query in a conversation. In another conversation than its own the mark is the first event
// after the message or, for the value after, the last one before.
func (q *request) markIn(cv *conversation, m *locatedMessage, after bool) (string, error) {
	switch {
	case m == nil:
		return "", nil
	case m.session == cv.session:
		return m.Message.ID, nil
	}
	low, high := chat.Seq(1), cv.sess.Last+1 // binary search for the first event after the message
	for low < high {
		mid := (low + high) / 2
		e, err := q.event(cv.session, mid)
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
func (q *request) findMessage(id string) (*locatedMessage, error) {
	sess, seq, err := q.eventByID("message", llm.IDPrefix, id)
	if err != nil {
		return nil, err
	}
	cv := q.conversationOf(&sess)
	// A message that waited for a turn is listed after other messages than its event.
	for limit := 8; limit <= 512; limit *= 8 {
		page, err := q.messages(cv, llm.Query{After: seqMark(seq - 1), Limit: limit})
		if err != nil {
			return nil, err
		}
		for i := range page.Messages {
			if page.Messages[i].ID == id {
				return &locatedMessage{&page.Messages[i], cv, page.Times[i]}, nil
			}
		}
	}
	return nil, errNotFound("message", id)
}

func (q *request) getMessage() (any, error) {
	m, err := q.findMessage(q.PathValue("message"))
	if err != nil {
		return nil, err
	}
	return stream.Expand(m.Message, false), nil
}
