package letta

import (
	"maps"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/record"
)

// blocksOf returns the memory blocks of an agent. They are stored for the client; agents here do not use them.
func blocksOf(rec *record.Record) (list []map[string]any) {
	_ = json.Unmarshal(rec.Fields["blocks"], &list)
	return list
}

func (q *request) listBlocks(rec *record.Record, _ *chat.Session) (any, error) {
	page := q.page("desc", 100)
	return pageOf(blocksOf(rec), &page, func(b map[string]any) string {
		id, _ := b["id"].(string)
		return id
	}, nil)
}

// findBlock returns the block with a label; it is an element of list.
func findBlock(list []map[string]any, label string) (map[string]any, error) {
	i := slices.IndexFunc(list, func(b map[string]any) bool { return b["label"] == label })
	if i < 0 {
		return nil, chat.Errorf(chat.NotFound, "the agent has no memory block with the label %q", clip(label))
	}
	return list[i], nil
}

func (q *request) getBlock(rec *record.Record, _ *chat.Session) (any, error) {
	return findBlock(blocksOf(rec), q.PathValue("label"))
}

func (q *request) updateBlock(rec *record.Record) (any, error) {
	var fields map[string]any
	if err := q.read(&fields); err != nil {
		return nil, err
	}
	for _, key := range []string{"value", "label"} {
		if v, ok := fields[key]; ok {
			if s, isText := v.(string); !isText || key == "label" && s == "" {
				return nil, malformed("%s: it must be a text", key)
			}
		}
	}
	delete(fields, "id")
	var block map[string]any
	_, err := q.records.Change(q.ctx, rec.ID, func(old *record.Record, _ func(string) *record.Record) (*record.Record, error) {
		if old == nil {
			return nil, chat.Errorf(chat.NotFound, "the agent %s was deleted", rec.ID)
		}
		list := blocksOf(old)
		var err error
		if block, err = findBlock(list, q.PathValue("label")); err != nil {
			return nil, err
		}
		maps.Copy(block, fields)
		next := *old
		next.Updated, next.Fields = 0, maps.Clone(old.Fields)
		next.Fields["blocks"], err = json.Marshal(list)
		return &next, err
	})
	return block, err
}

// listAgentTools answers with an empty list: the tools belong to the agent that answers.
func (q *request) listAgentTools(*record.Record, *chat.Session) (any, error) { return []any{}, nil }

// recompileAgent answers with the system prompt, which is never out of date.
func (q *request) recompileAgent(rec *record.Record, _ *chat.Session) (any, error) {
	return rec.Text("system"), nil
}

func (q *request) recompileConversation(rec *record.Record, _ *chat.Session) (any, error) {
	if agent := q.records.Get(kindAgent, rec.Text("agent_id")); agent != nil {
		return agent.Text("system"), nil
	}
	return "", nil
}

// listTags lists the tags of the agents that the caller may see.
func (q *request) listTags() (any, error) {
	page, text := q.page("asc", 100), q.Text("query_text")+q.Text("name")
	var tags []string
	for _, rec := range q.records.List(kindAgent) {
		added := slices.DeleteFunc(rec.Texts("tags"), func(tag string) bool { return slices.Contains(tags, tag) || !containsFold(tag, text) })
		if len(added) == 0 {
			continue
		}
		sess, err := q.session(rec.ID)
		if err != nil {
			return nil, err
		}
		if sess != nil {
			tags = append(tags, added...)
		}
	}
	slices.Sort(tags)
	return pageOf(tags, &page, func(tag string) string { return tag }, nil)
}
