package chat

import "cmp"

// call begins a tool's item.
func (t *Transcript) call(e *Event, b AgentToolCall) {
	key := callKeyOf(e, b.CallID, b.Tool)
	if b.CallID != "" {
		t.cutOff(e, key) // the id is used again: the first call has no outcome
	}
	if i := t.add(e, ItemTool, callID(e, b.CallID)); i >= 0 {
		t.Items[i].Tool = &ToolItem{CallID: b.CallID, Tool: b.Tool, Params: b.Params, Status: ToolRunning, StartedAt: e.At}
		t.runs(key, i)
	}
}

// runs notes a call that waits for its outcome.
func (t *Transcript) runs(key callKey, i int) {
	t.calls[key] = append(t.calls[key], i)
	if key.turn != "" {
		t.turn(key.turn).calls[key] = true
	}
}

// waiting returns the index of the call that a later event is about.
func (t *Transcript) waiting(key callKey) (i int, ok bool) {
	if waiting := t.calls[key]; len(waiting) > 0 {
		return waiting[0], true
	}
	return 0, false
}

// ended removes a call that has its outcome from the running ones.
func (t *Transcript) ended(key callKey) {
	if waiting := t.calls[key]; len(waiting) > 1 {
		t.calls[key] = waiting[1:]
		return
	}
	delete(t.calls, key)
	if key.turn != "" {
		delete(t.turn(key.turn).calls, key)
	}
}

// cutOff marks calls that will not get an outcome any more.
func (t *Transcript) cutOff(e *Event, key callKey) {
	for _, i := range t.calls[key] {
		it := &t.Items[i]
		tool := *it.Tool
		tool.Status, tool.EndedAt = ToolUnknown, e.At
		it.Tool, it.Last = &tool, e.Seq
	}
	delete(t.calls, key)
	if key.turn != "" {
		delete(t.turn(key.turn).calls, key)
	}
}

// progress updates the item of its call, or makes one for a batch that is no
// call.
func (t *Transcript) progress(e *Event, b AgentToolProgress) {
	name := cmp.Or(b.CallID, b.BatchID)
	key := callKeyOf(e, name, b.Tool)
	i, running := t.waiting(key)
	if !running {
		if _, ended := t.index[nameID("c-", e.Turn, name)]; ended {
			return
		}
		if i = t.add(e, ItemTool, callID(e, name)); i < 0 {
			return
		}
		// A batch begins with its first report. Only of a call was there
		// something before, and of a batch if its turn began earlier.
		t.Items[i].Headless = b.CallID != "" || !t.turn(e.Turn).began
		t.Items[i].Tool = &ToolItem{CallID: b.CallID, Status: ToolRunning}
		if b.CallID == "" {
			t.Items[i].Tool.BatchID, t.Items[i].Tool.StartedAt = b.BatchID, e.At
		}
		t.runs(key, i)
	}
	it := &t.Items[i]
	tool := *it.Tool
	tool.Tool = cmp.Or(tool.Tool, b.Tool)
	tool.Progress = &ToolProgress{Done: b.Done, Total: b.Total, Message: b.Message, Items: b.Items, Data: b.Data}
	if tool.BatchID != "" && b.Total > 0 && b.Done >= b.Total {
		tool.Status, tool.EndedAt = ToolOK, e.At
		t.ended(key)
	}
	it.Tool, it.Last = &tool, e.Seq
}

// outcome ends a call.
func (t *Transcript) outcome(e *Event, call, name string, end func(*ToolItem)) {
	key := callKeyOf(e, call, name)
	i, running := t.waiting(key)
	if !running {
		if _, ended := t.index[nameID("c-", e.Turn, call)]; ended {
			return // the first outcome stays
		}
		if i = t.add(e, ItemTool, callID(e, call)); i < 0 {
			return
		}
		t.Items[i].Headless, t.Items[i].Tool = true, &ToolItem{CallID: call}
	}
	it := &t.Items[i]
	tool := *it.Tool
	tool.Tool = cmp.Or(tool.Tool, name)
	end(&tool)
	tool.EndedAt = e.At
	it.Tool, it.Last = &tool, e.Seq
	if running {
		t.ended(key)
	}
}

func callKeyOf(e *Event, call, tool string) callKey {
	key := callKey{turn: e.Turn, line: e.Workstream, call: call}
	if call == "" {
		key.tool = tool
	}
	return key
}

func callID(e *Event, call string) string {
	return cmp.Or(nameID("c-", e.Turn, call), seqID(e.Seq))
}

func statusOf(code string) ToolStatus {
	switch code {
	case Denial:
		return ToolDenied
	case UnknownOutcome:
		return ToolUnknown
	}
	return ToolFailed
}

// workstream folds an event about a workstream into its item.
func (t *Transcript) workstream(e *Event, id string) {
	if b, ok := e.Body.(WorkstreamLaunched); ok {
		if i := t.add(e, ItemWorkstream, "w-"+id); i >= 0 {
			t.Items[i].Work = newWorkstream(e, b)
		}
		return
	}
	it := t.at(e, "w-"+id)
	if it == nil {
		i := t.add(e, ItemWorkstream, "w-"+id)
		if i < 0 {
			return
		}
		it = &t.Items[i]
		it.Headless = true
		it.Work = &Workstream{WorkstreamLaunched: WorkstreamLaunched{ID: id}, State: "running", Parent: e.Workstream}
		if known := t.State.Workstream(id); known != nil {
			it.Work = known // the launch is not in the window, but the state has it
		}
	}
	w := *it.Work
	w.apply(e)
	it.Work = &w
}
