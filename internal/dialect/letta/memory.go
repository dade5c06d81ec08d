package letta

import (
	"maps"
	"net/http"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// blocksOf are the memory blocks that an agent was made with. They are kept for
// the client; agents here have their memory in the log.
func blocksOf(rec *record) (list []map[string]any) {
	_ = json.Unmarshal(rec.Fields["blocks"], &list)
	return list
}

func (d *Dialect) listBlocks(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	q := newQuery(r)
	asc, limit := q.ascending(), q.limit(100, 1000)
	if q.err != nil {
		return q.err
	}
	_, rec, err := d.findAgent(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return err
	}
	page, err := sliceOf(blocksOf(rec), asc, limit, q.text("after"), q.text("before"), func(b map[string]any) string {
		id, _ := b["id"].(string)
		return id
	})
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, append([]map[string]any{}, page...))
	return nil
}

// blockNamed is where an agent's block with a label stands, -1 when there is none.
func blockNamed(list []map[string]any, label string) int {
	return slices.IndexFunc(list, func(b map[string]any) bool { return b["label"] == label })
}

func errNoBlock(label string) error {
	return chat.Errorf(chat.NotFound, "the agent has no memory block with the label %q", clip(label))
}

func (d *Dialect) getBlock(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	_, rec, err := d.findAgent(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return err
	}
	list := blocksOf(rec)
	i := blockNamed(list, r.PathValue("label"))
	if i < 0 {
		return errNoBlock(r.PathValue("label"))
	}
	d.send(w, r, http.StatusOK, list[i])
	return nil
}

func (d *Dialect) updateBlock(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var change map[string]any
	if err := d.readJSON(r, &change); err != nil {
		return err
	}
	for _, key := range []string{"value", "label"} {
		if v, ok := change[key]; ok {
			if s, text := v.(string); !text || key == "label" && s == "" {
				return unfit("%s: it must be a text", key)
			}
		}
	}
	delete(change, "id")
	b, rec, err := d.ownAgent(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return err
	}
	var block map[string]any
	_, err = b.change(r.Context(), rec.ID, func(old *record) (record, error) {
		if old == nil {
			return record{}, chat.Errorf(chat.NotFound, "the agent %s is no more", rec.ID)
		}
		list := blocksOf(old)
		i := blockNamed(list, r.PathValue("label"))
		if i < 0 {
			return record{}, errNoBlock(r.PathValue("label"))
		}
		block = list[i]
		maps.Copy(block, change)
		next := *old
		next.Updated, next.Fields = 0, maps.Clone(old.Fields)
		var err error
		next.Fields["blocks"], err = json.Marshal(list)
		return next, err
	})
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, block)
	return nil
}

// listAgentTools answers that an agent has no tools that a client could see: they
// belong to the agent that answers.
func (d *Dialect) listAgentTools(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	if _, _, err := d.findAgent(r.Context(), c, r.PathValue("agent")); err != nil {
		return err
	}
	return d.nothing(w, r, c)
}

// recompileAgent answers with the system prompt, which is never out of date here.
func (d *Dialect) recompileAgent(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	_, rec, err := d.findAgent(r.Context(), c, r.PathValue("agent"))
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, rec.text("system"))
	return nil
}

func (d *Dialect) recompileConversation(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	p, err := d.conversationPlace(r.Context(), c, r.PathValue("conversation"), r.URL.Query().Get("agent_id"))
	if err != nil {
		return err
	}
	b, err := d.bookOf(r.Context(), c)
	if err != nil {
		return err
	}
	system := ""
	if rec := b.get(kindAgent, p.agentID); rec != nil {
		system = rec.text("system")
	}
	d.send(w, r, http.StatusOK, system)
	return nil
}

// listTags lists the tags of the agents that the caller may see.
func (d *Dialect) listTags(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	q := newQuery(r)
	asc, limit, text := q.order("asc") == "asc", q.limit(100, 1000), q.text("query_text")+q.text("name")
	if q.err != nil {
		return q.err
	}
	b, err := d.bookOf(r.Context(), c)
	if err != nil {
		return err
	}
	var tags []string
	for _, rec := range b.of(kindAgent) {
		own := slices.DeleteFunc(rec.texts("tags"), func(tag string) bool { return slices.Contains(tags, tag) || !folded(tag, text) })
		if len(own) == 0 {
			continue
		}
		_, err := d.opt.Sessions.Get(r.Context(), c, chat.SessionID(rec.ID))
		if absent(err) {
			continue
		}
		if err != nil {
			return err
		}
		tags = append(tags, own...)
	}
	slices.Sort(tags)
	page, err := sliceOf(tags, asc, limit, q.text("after"), q.text("before"), func(tag string) string { return tag })
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, append([]string{}, page...))
	return nil
}
