package letta

import (
	"context"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// conversation is a session in Letta's terms: a conversation of an agent.
type conversation struct {
	session  chat.SessionID
	agentID  string
	id       string // "" is the agent's default conversation
	answerer string // the agent of this server that answers
	queues   bool   // a message may wait while the agent works
}

func (cv *conversation) fold() llm.Options {
	return llm.Options{AgentID: cv.agentID, ConversationID: cv.id}
}

// messages lists messages of a conversation.
func (d *Dialect) messages(ctx context.Context, c chat.Caller, cv *conversation, q llm.Query) (llm.Page, error) {
	q.Options = cv.fold()
	return llm.List(ctx, llm.SessionLog{Sessions: d.opt.Sessions, Caller: c, ID: cv.session}, q)
}

// conversationOf describes a session. A session of another dialect is a conversation of the agent that answers there.
func (d *Dialect) conversationOf(ctx context.Context, c chat.Caller, sess *chat.Session) (*conversation, error) {
	records, err := d.recordsOf(ctx, c)
	if err != nil {
		return nil, err
	}
	cv := &conversation{session: sess.ID, id: string(sess.ID), agentID: sess.Agent, answerer: sess.Agent}
	rec := records.Get(kindConversation, string(sess.ID))
	if records.Get(kindAgent, string(sess.ID)) != nil {
		cv.agentID, cv.id = string(sess.ID), ""
	} else if rec != nil {
		cv.agentID = rec.Text("agent_id")
	}
	agent := records.Get(kindAgent, cv.agentID)
	if agent == nil {
		cv.queues = rec == nil // in a session of another dialect its policy decides
		return cv, nil
	}
	var metadata map[string]any
	_ = json.Unmarshal(agent.Fields["metadata"], &metadata)
	policy, _ := busyPolicy(metadata)
	cv.queues = policy != ""
	return cv, nil
}

// defaultConversation is an agent's default conversation.
func (d *Dialect) defaultConversation(ctx context.Context, c chat.Caller, agentID string) (*conversation, error) {
	_, _, sess, err := d.findAgent(ctx, c, agentID)
	if err != nil {
		return nil, err
	}
	return d.conversationOf(ctx, c, sess)
}

// conversation returns the conversation that a path names: by its id, by an alias of the caller, by the id of an agent,
// or as "default" together with an agent's id.
func (d *Dialect) conversation(ctx context.Context, c chat.Caller, id, agentID string) (*conversation, error) {
	if id == "default" {
		if agentID == "" {
			return nil, chat.Errorf(chat.Invalid, "the default conversation needs its agent: give agent_id")
		}
		return d.defaultConversation(ctx, c, agentID)
	}
	resolved, err := d.opt.Sessions.Resolve(ctx, c, chat.SessionID(id))
	if err != nil {
		return nil, err
	}
	return d.conversationIn(ctx, c, resolved)
}

// conversationIn returns the conversation in a session.
func (d *Dialect) conversationIn(ctx context.Context, c chat.Caller, id chat.SessionID) (*conversation, error) {
	sess, err := d.opt.Sessions.Get(ctx, c, id)
	if chat.CodeOf(err) == chat.NotFound || err == nil && sess.ID.System() {
		return nil, errNotFound("conversation", string(id))
	}
	if err != nil {
		return nil, err
	}
	return d.conversationOf(ctx, c, &sess)
}

// errNotFound is the answer for objects that do not exist and for those of others.
func errNotFound(kind, id string) error {
	return chat.Errorf(chat.NotFound, "there is no %s %q, or it is not yours", kind, clip(id))
}

// conversationsOf returns the conversations of an agent, the default one first; or only the one with the given id.
func (d *Dialect) conversationsOf(ctx context.Context, c chat.Caller, agentID, id string) ([]*conversation, error) {
	if id != "" {
		cv, err := d.conversation(ctx, c, id, agentID)
		if err == nil && cv.agentID != agentID {
			err = chat.Errorf(chat.NotFound, "conversation %q is not one of this agent", clip(id))
		}
		return []*conversation{cv}, err
	}
	cv, err := d.defaultConversation(ctx, c, agentID)
	if err != nil {
		return nil, err
	}
	out := []*conversation{cv}
	records, err := d.recordsOf(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, rec := range records.List(kindConversation) {
		if rec.Text("agent_id") != agentID {
			continue
		}
		cv, err := d.conversationIn(ctx, c, chat.SessionID(rec.ID))
		if absent(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, cv)
	}
	return out, nil
}

// recentConversations bounds the conversations that a list covers when it names no agent: those that changed last.
const recentConversations = 200

// selectConversations returns the conversations that a list covers: one, those of some agents, or the recent ones. With
// active, recent ones without a turn are left out.
func (d *Dialect) selectConversations(ctx context.Context, c chat.Caller, agents []string, id string, active bool) ([]*conversation, error) {
	if id != "" {
		agent := ""
		if len(agents) > 0 {
			agent = agents[0]
		}
		cv, err := d.conversation(ctx, c, id, agent)
		return []*conversation{cv}, err
	}
	var out []*conversation
	for _, agent := range agents {
		list, err := d.conversationsOf(ctx, c, agent, "")
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	if len(agents) > 0 {
		return out, nil
	}
	page, err := d.opt.Sessions.List(ctx, c, chat.Filter{Limit: recentConversations})
	if err != nil {
		return nil, err
	}
	for i := range page.Sessions {
		sess := &page.Sessions[i]
		if sess.Agent == chat.NoAgent || active && sess.Status != chat.Running && sess.Status != chat.Waiting {
			continue
		}
		cv, err := d.conversationOf(ctx, c, sess)
		if err != nil {
			return nil, err
		}
		out = append(out, cv)
	}
	return out, nil
}

// recentMessages is the number of messages that are listed as in an agent's context.
const recentMessages = 100

// recent returns the ids of the last messages of a conversation, in order. Clients that come back look at the last one
// for an open approval request.
func (d *Dialect) recent(ctx context.Context, c chat.Caller, sess *chat.Session) ([]string, error) {
	cv, err := d.conversationOf(ctx, c, sess)
	if err != nil {
		return nil, err
	}
	page, err := d.messages(ctx, c, cv, llm.Query{Limit: recentMessages, Desc: true})
	ids := []string{}
	for i := range page.Messages {
		ids = append(ids, page.Messages[i].ID)
	}
	slices.Reverse(ids)
	return ids, err
}
