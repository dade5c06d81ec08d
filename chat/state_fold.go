package chat

// applyTurn folds an event about a turn.
func (s *State) applyTurn(e *Event) {
	switch b := e.Body.(type) {
	case TurnStarted:
		s.reopen() // by a message that waited when the session was ended
		l := s.line(e.Workstream)
		l.Queue = without(l.Queue, b.Trigger)
		l.Turn = &Turn{ID: b.TurnID, Seq: e.Seq, Trigger: b.Trigger, Agent: b.Agent, Attempt: 1, StartedAt: e.At}
		// One turn takes all waiting events of workstreams.
		l.Turn.Woken, l.Wakes = without(l.Wakes, b.Trigger), nil
		s.clock(e.Workstream, e.At, true)
	case TurnResumed:
		if t, _ := s.TurnOf(b.TurnID); t != nil {
			t.Attempt, t.Crashes = b.Attempt, b.Crashes
		}
	case TurnInput:
		if t, _ := s.TurnOf(e.Turn); t != nil {
			t.Steered = without(t.Steered, b.Sequences...)
			t.Woken, t.Told = without(t.Woken, b.Sequences...), without(t.Told, b.Sequences...)
		}
	case TurnStopRequested:
		if t, _ := s.TurnOf(b.TurnID); t != nil {
			t.Stopping, t.StopBy, t.Ack = true, b.Deadline, b.Ack
		}
	case TurnCompleted:
		l := s.line(e.Workstream)
		if l.Turn != nil && l.Turn.ID == b.TurnID {
			l.Queue, l.Wakes = append(l.Turn.Steered, l.Queue...), append(l.Turn.Woken, l.Wakes...)
			l.Turn = nil
			s.clock(e.Workstream, e.At, false)
		}
		if l.Next() == 0 && e.Workstream != "" {
			delete(s.Lines, e.Workstream)
		}
		if e.Workstream == "" {
			s.Ended = &TurnEnd{b.Outcome, b.Error}
		}
	}
}

// applyWork folds what an agent says and does.
func (s *State) applyWork(e *Event) {
	switch b := e.Body.(type) {
	case AgentText, AgentThinking:
		block := FinishedBlock(e.Body)
		if e.Turn == "" && block != "" {
			s.closeBlock(block)
		}
		if t, _ := s.TurnOf(e.Turn); t != nil {
			if block != "" {
				t.Closed = append(t.Closed, block)
			}
			if e.Workstream != "" && e.Type == (AgentText{}).Type() {
				t.Answer = e.Seq
			}
		}
	case AgentToolCall:
		if t, _ := s.TurnOf(e.Turn); t != nil {
			t.Calls = append(t.Calls, OpenCall{b.CallID, b.Tool, e.Seq, b.Repeatable})
		}
	case AgentToolResult:
		s.callEnded(e.Turn, b.CallID)
	case AgentToolError:
		s.callEnded(e.Turn, b.CallID)
	case AgentPlan:
		if e.Workstream == "" { // a child's is part of its own line
			s.Plan = &b
		}
	case AgentUsage:
		s.Usage = s.Usage.Plus(b.Usage)
		if t, _ := s.TurnOf(e.Turn); t != nil {
			t.Usage = t.Usage.Plus(b.Usage)
		}
	}
}

// applyPrompt folds a prompt, an answer, or the end of a prompt without one.
func (s *State) applyPrompt(e *Event) {
	switch b := e.Body.(type) {
	case AgentInputRequest, AgentApprovalRequest, AgentPermissionRequest:
		if p, ok := AsPrompt(e); ok {
			s.Prompts = append(s.Prompts, &p)
		}
	case UserApprovalResponse:
		if e.Seq > s.Session.ForkedAt {
			s.remember(b)
		}
		s.close(b.RequestID)
	case UserPermissionResponse:
		// What was allowed before a fork holds where it was allowed.
		if e.Seq > s.Session.ForkedAt && (b.Duration == "session" || b.Duration == "always") {
			s.Granted = union(s.Granted, b.Granted)
		}
		s.close(b.RequestID)
	case UserInputResponse:
		s.close(b.RequestID)
	case PromptClosed:
		s.close(b.RequestID)
	}
}
