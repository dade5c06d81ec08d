package letta

import (
	"maps"
	"net/http"
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

func (d *Dialect) listBlocks(r *http.Request, c chat.Caller) (any, error) {
	q := newQuery(r)
	page := q.page("desc", 100)
	if err := q.err(); err != nil {
		return nil, err
	}
	_, rec, _, err := d.findAgent(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return nil, err
	}
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

func (d *Dialect) getBlock(r *http.Request, c chat.Caller) (any, error) {
	_, rec, _, err := d.findAgent(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return nil, err
	}
	return findBlock(blocksOf(rec), r.PathValue("label"))
}

func (d *Dialect) updateBlock(r *http.Request, c chat.Caller) (any, error) {
	var fields map[string]any
	if err := d.read(r, &fields); err != nil {
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
	records, rec, err := d.ownAgent(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return nil, err
	}
	var block map[string]any
	_, err = records.Change(r.Context(), rec.ID, func(old *record.Record, _ func(string) *record.Record) (*record.Record, error) {
		if old == nil {
			return nil, chat.Errorf(chat.NotFound, "the agent %s was deleted", rec.ID)
		}
		list := blocksOf(old)
		var err error
		if block, err = findBlock(list, r.PathValue("label")); err != nil {
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
func (d *Dialect) listAgentTools(r *http.Request, c chat.Caller) (any, error) {
	_, _, _, err := d.findAgent(r.Context(), c, r.PathValue("agent"))
	return []any{}, err
}

// recompileAgent answers with the system prompt, which is never out of date.
func (d *Dialect) recompileAgent(r *http.Request, c chat.Caller) (any, error) {
	_, rec, _, err := d.findAgent(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return nil, err
	}
	return rec.Text("system"), nil
}

func (d *Dialect) recompileConversation(r *http.Request, c chat.Caller) (any, error) {
	records, rec, _, err := d.findConversation(r, c)
	if err != nil {
		return nil, err
	}
	if agent := records.Get(kindAgent, rec.Text("agent_id")); agent != nil {
		return agent.Text("system"), nil
	}
	return "", nil
}

// listTags lists the tags of the agents that the caller may see.
func (d *Dialect) listTags(r *http.Request, c chat.Caller) (any, error) {
	q := newQuery(r)
	page, text := q.page("asc", 100), q.Text("query_text")+q.Text("name")
	if err := q.err(); err != nil {
		return nil, err
	}
	records, err := d.recordsOf(r.Context(), c)
	if err != nil {
		return nil, err
	}
	var tags []string
	for _, rec := range records.List(kindAgent) {
		added := slices.DeleteFunc(rec.Texts("tags"), func(tag string) bool { return slices.Contains(tags, tag) || !containsFold(tag, text) })
		if len(added) == 0 {
			continue
		}
		_, err := d.opt.Sessions.Get(r.Context(), c, chat.SessionID(rec.ID))
		if absent(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		tags = append(tags, added...)
	}
	slices.Sort(tags)
	return pageOf(tags, &page, func(tag string) string { return tag }, nil)
}
