package letta

import (
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/llm"
)

// conversation is a session in Letta's terms: a conversation of an agent.
type conversation struct {
	session  chat.SessionID
	sess     *chat.Session
	agentID  string
	id       string // "" is the agent's default conversation
	answerer string // the agent of this server that answers
	queues   bool   // a message may wait while the agent works
}

func (cv *conversation) fold() llm.Options {
	return llm.Options{AgentID: cv.agentID, ConversationID: cv.id}
}

// messages lists messages of a conversation.
func (q *request) messages(cv *conversation, list llm.Query) (llm.Page, error) {
	list.Options = cv.fold()
	return llm.List(q.ctx, llm.SessionLog{Sessions: q.opt.Sessions, Caller: q.caller, ID: cv.session}, list)
}

// conversationOf describes a session. A session of another dialect is a conversation of the agent that answers there.
func (q *request) conversationOf(sess *chat.Session) *conversation {
	cv := &conversation{session: sess.ID, sess: sess, id: string(sess.ID), agentID: sess.Agent, answerer: sess.Agent}
	rec := q.records.Get(kindConversation, string(sess.ID))
	if q.records.Get(kindAgent, string(sess.ID)) != nil {
		cv.agentID, cv.id = string(sess.ID), ""
	} else if rec != nil {
		cv.agentID = rec.Text("agent_id")
	}
	agent := q.records.Get(kindAgent, cv.agentID)
	if agent == nil {
		cv.queues = rec == nil // in a session of another dialect its policy decides
		return cv
	}
	var metadata map[string]any
	_ = json.Unmarshal(agent.Fields["metadata"], &metadata)
	policy, _ := busyPolicy(metadata)
	cv.queues = policy != ""
	return cv
}

// defaultConversation is an agent's default conversation.
func (q *request) defaultConversation(agentID string) (*conversation, error) {
	_, sess, err := q.findAgent(agentID)
	if err != nil {
		return nil, err
	}
	return q.conversationOf(sess), nil
}

// conversation returns the conversation that a path names: by its id, by an alias of the caller, by the id of an agent,
// or as "default" together with an agent's id.
func (q *request) conversation(id, agentID string) (*conversation, error) {
	if id == "default" {
		if agentID == "" {
			return nil, chat.Errorf(chat.Invalid, "the default conversation needs its agent: give agent_id")
		}
		return q.defaultConversation(agentID)
	}
	resolved, err := q.opt.Sessions.Resolve(q.ctx, q.caller, chat.SessionID(id))
	if err != nil {
		return nil, err
	}
	sess, err := q.opt.Sessions.Get(q.ctx, q.caller, resolved)
	if chat.CodeOf(err) == chat.NotFound || err == nil && sess.ID.System() {
		err = errNotFound("conversation", id)
	}
	if err == nil && ofLetta(&sess) && q.records.Get(kindAgent, string(sess.ID)) == nil {
		_, err = q.records.Find(q.ctx, kindConversation, string(sess.ID)) // it was stored after the session
	}
	if err != nil {
		return nil, err
	}
	return q.conversationOf(&sess), nil
}

// errNotFound is the answer for objects that do not exist and for those of others.
func errNotFound(kind, id string) error {
	return chat.Errorf(chat.NotFound, "there is no %s %q, or it is not yours", kind, clip(id))
}

// conversationsOf returns the conversations of an agent, the default one first; or only the one with the given id.
func (q *request) conversationsOf(agentID, id string) ([]*conversation, error) {
	if id != "" {
		cv, err := q.conversation(id, agentID)
		if err == nil && cv.agentID != agentID {
			err = chat.Errorf(chat.NotFound, "conversation %q is not one of this agent", clip(id))
		}
		return []*conversation{cv}, err
	}
	cv, err := q.defaultConversation(agentID)
	if err != nil {
		return nil, err
	}
	out := []*conversation{cv}
	for _, rec := range q.records.List(kindConversation) {
		if rec.Text("agent_id") != agentID {
			continue
		}
		sess, err := q.session(rec.ID)
		if err != nil {
			return nil, err
		}
		if sess != nil {
			out = append(out, q.conversationOf(sess))
		}
	}
	return out, nil
}

// recentConversations bounds the conversations that a list covers when it names no agent: those that changed last.
const recentConversations = 200

// selectConversations returns the conversations that a list covers: one, those of some agents, or the recent ones. With
// active, recent ones without a turn are left out.
func (q *request) selectConversations(agents []string, id string, active bool) ([]*conversation, error) {
	if id != "" {
		agent := ""
		if len(agents) > 0 {
			agent = agents[0]
		}
		cv, err := q.conversation(id, agent)
		return []*conversation{cv}, err
	}
	var out []*conversation
	for _, agent := range agents {
		list, err := q.conversationsOf(agent, "")
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	if len(agents) > 0 {
		return out, nil
	}
	page, err := q.opt.Sessions.List(q.ctx, q.caller, core.Filter{Limit: recentConversations})
	if err != nil {
		return nil, err
	}
	for i := range page.Sessions {
		sess := &page.Sessions[i]
		if sess.Agent == chat.NoAgent || active && sess.Status != chat.Running && sess.Status != chat.Waiting {
			continue
		}
		out = append(out, q.conversationOf(sess))
	}
	return out, nil
}

// recentMessages is the number of messages that are listed as in an agent's context.
const recentMessages = 100

// recent returns the ids of the last messages of a conversation, in order. Clients that come back look at the last one
// for an open approval request.
func (q *request) recent(sess *chat.Session) ([]string, error) {
	page, err := q.messages(q.conversationOf(sess), llm.Query{Limit: recentMessages, Desc: true})
	ids := []string{}
	for i := range page.Messages {
		ids = append(ids, page.Messages[i].ID)
	}
	slices.Reverse(ids)
	return ids, err
}
