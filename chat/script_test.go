package chat

import "encoding/json"

var (
	mira = Actor{Kind: User, ID: "mira", Name: "Mira"}
	jon  = Actor{Kind: User, ID: "jon"}
	demo = Actor{Kind: Agent, ID: "demo"}
)

// tb is what tests and properties have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// script writes a log that follows the rules.
type script struct {
	t       tb
	id      SessionID
	entries []entry
	turns   map[string]TurnID
	seq     Seq
	at      At
}

// entry is an event or a preview of a vector.
type entry struct {
	event   *Event
	preview *Preview
}

func (e entry) MarshalJSON() ([]byte, error) {
	if e.preview != nil {
		return json.Marshal(map[string]json.RawMessage{"preview": e.preview.AppendJSON(nil)})
	}
	return e.event.AppendJSON(nil), nil
}

func (e *entry) UnmarshalJSON(b []byte) error {
	var p struct{ Preview *Preview }
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	if e.preview = p.Preview; e.preview != nil {
		return nil
	}
	e.event = new(Event)
	return json.Unmarshal(b, e.event)
}

// scriptNumber is the number of session s-1.
const scriptNumber Number = 1873845828311235

// newScript begins a session with the demo agent.
func newScript(t tb) *script {
	s := &script{t: t, id: "s-1", turns: map[string]TurnID{}, at: 1_767_323_045_000_000}
	s.say(mira, SessionStarted{Agent: "demo", Title: "A test"})
	return s
}

func (s *script) append(e Event) Seq {
	s.t.Helper()
	s.seq++
	s.at += 1_000_003
	e.Session, e.Seq, e.At = s.id, s.seq, s.at
	e.ID = EventID(MakeID(scriptNumber, s.seq).Text(EventPrefix))
	if e.Payload == nil {
		d := Draft{Body: e.Body}
		if err := d.Normalize(); err != nil {
			s.t.Fatalf("event %d: %v", s.seq, err)
		}
		e.Type, e.Payload = d.Type, d.Payload
	}
	// Fold what a reader gets: the parsed envelope.
	parsed, err := ParseEvent(e.AppendJSON(nil))
	if err != nil {
		s.t.Fatalf("event %d: %v", s.seq, err)
	}
	s.entries = append(s.entries, entry{event: &parsed})
	return s.seq
}

// say appends an event outside any turn.
func (s *script) say(by Actor, b Body) Seq { s.t.Helper(); return s.append(Event{Actor: by, Body: b}) }

// ask appends a person's message.
func (s *script) ask(by Actor, text string) Seq {
	s.t.Helper()
	return s.say(by, UserMessage{Text: text})
}

// turn starts the answer to a trigger on a line.
func (s *script) turn(line string, trigger Seq) TurnID {
	s.t.Helper()
	id := TurnID(MakeID(scriptNumber, s.seq+1).Text(TurnPrefix))
	s.turns[line] = id
	s.append(Event{Actor: System, Turn: id, Workstream: line, Body: TurnStarted{TurnID: id, Trigger: trigger, Agent: "demo"}})
	return id
}

// on appends an event of the agent on a line, inside its turn.
func (s *script) on(line string, b Body) Seq {
	s.t.Helper()
	return s.append(Event{Actor: demo, Turn: s.turns[line], Workstream: line, Body: b})
}

// server appends an event of the server on a line.
func (s *script) server(line string, b Body) Seq {
	s.t.Helper()
	return s.append(Event{Actor: System, Turn: s.turns[line], Workstream: line, Body: b})
}

// done ends the turn of a line.
func (s *script) done(line string, o Outcome, err string) Seq {
	s.t.Helper()
	seq := s.server(line, TurnCompleted{TurnID: s.turns[line], Outcome: o, Error: err})
	delete(s.turns, line)
	return seq
}

// raw appends an event as another program would write it.
func (s *script) raw(line, typ, payload string) Seq {
	s.t.Helper()
	return s.append(Event{Actor: demo, Turn: s.turns[line], Workstream: line, Type: typ, Payload: json.RawMessage(payload)})
}

// piece previews a part of a block of the line's turn.
func (s *script) piece(line string, block BlockID, offset int, text string) {
	s.pieceOf(line, block, offset, text, TextBlock)
}

func (s *script) pieceOf(line string, block BlockID, offset int, text string, kind BlockKind) {
	p := Preview{Block: block, Offset: offset, Text: text, Kind: kind, Workstream: line, Turn: s.turns[line]}
	if err := p.Normalize(); err != nil {
		s.t.Fatal(err)
	}
	s.entries = append(s.entries, entry{preview: &p})
}

// answering appends a message and starts the turn that answers it.
func (s *script) answering(text string) TurnID { return s.turn("", s.ask(mira, text)) }

func (s *script) transcript() *Transcript {
	t := new(Transcript)
	for _, e := range s.entries {
		if e.preview != nil {
			t.Preview(e.preview)
		} else {
			t.Apply(e.event)
		}
	}
	return t
}

func (s *script) events() (events []Event) {
	for _, e := range s.entries {
		if e.event != nil {
			events = append(events, *e.event)
		}
	}
	return events
}
