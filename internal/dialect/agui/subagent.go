package agui

import (
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// open starts the subagent of a workstream if that has not happened in this run. It returns the tag for its events.
func (x *encoder) open(line string) string {
	if _, started := x.run.subagents[line]; line == "" || started {
		return line
	}
	ev := event{Type: "SUBAGENT_STARTED", Subagent: line, Name: line}
	x.run.subagents[line] = true // before the parent's, so that no loop of parents is followed
	if w := x.work[line]; w != nil {
		if w.name != "" {
			ev.Name = w.name
		}
		ev.About = w.task
		if w.parent != "" && w.parent != line && x.work[w.parent] != nil && !x.isAncestor(line, w.parent) {
			ev.Parent = x.open(w.parent)
		}
	}
	x.emit(ev)
	return line
}

// isAncestor reports whether line is launched below itself, which only a damaged log has.
func (x *encoder) isAncestor(line, of string) bool {
	for range x.work {
		w := x.work[of]
		if w == nil || w.parent == "" {
			return false
		}
		if of = w.parent; of == line {
			return true
		}
	}
	return true
}

// endWork ends the subagent of a workstream. A subagent ends once in a run.
func (x *encoder) endWork(id string, ev event) {
	x.open(id)
	if !x.run.subagents[id] {
		return
	}
	for _, key := range sortedKeys(x.blocks) {
		if b := x.blocks[key]; b.line == id {
			x.closeBlock(b)
		}
	}
	x.run.subagents[id] = false
	ev.Subagent = id
	x.emit(ev)
}

func workResult(b chat.WorkstreamCompleted) json.RawMessage {
	if len(b.Result) > 0 && string(b.Result) != "null" {
		return b.Result
	}
	if b.Summary == "" {
		return nil
	}
	return quote(b.Summary)
}
