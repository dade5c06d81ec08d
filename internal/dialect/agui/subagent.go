package agui

import (
	"cmp"
	"maps"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// open starts the subagent of a workstream if that has not happened in this run. It returns the tag for its events.
func (x *encoder) open(line string) string {
	if _, started := x.run.subagents[line]; line == "" || started {
		return line
	}
	ev := event{Type: "SUBAGENT_STARTED", Subagent: line, Name: line}
	if w := x.work[line]; w != nil {
		ev.Name, ev.About, ev.Parent = cmp.Or(w.name, line), w.task, x.open(w.parent)
	}
	x.run.subagents[line] = true
	x.emit(ev)
	return line
}

// endWork ends the subagent of a workstream. A subagent ends once in a run.
func (x *encoder) endWork(id string, ev event) {
	x.open(id)
	if !x.run.subagents[id] {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(x.blocks)) {
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
