package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/parley-hq/parley/chat"
)

// keepDraft moves an unfinished answer to the message field when its prompt is closed.
func (m *screen) keepDraft(e *chat.Event) {
	if m.form == nil || chat.AnswerOf(e.Body) != m.form.prompt.RequestID {
		return
	}
	text := m.form.draft()
	if b, ok := e.Body.(chat.UserInputResponse); ok && b.Text == text {
		return
	}
	if text != "" && m.input.Value() == "" {
		m.input.SetValue(text)
		m.notice = "the question is closed; your text is kept here"
	}
}

// armMsg says that a prompt is old enough to receive keys.
type armMsg string

// armAfter is the time after a prompt has appeared in which keys still go to the message, so that typing does not approve
// something by accident.
const armAfter = 700 * time.Millisecond

// showForm shows a form for the oldest open prompt, unless the form of an open prompt is shown.
func (m *screen) showForm() tea.Cmd {
	prompts := m.conversation.State.Prompts
	if m.form != nil {
		if slices.ContainsFunc(prompts, func(p *chat.Prompt) bool { return p.RequestID == m.form.prompt.RequestID }) {
			return nil
		}
		m.form = nil
	}
	m.away = false
	if len(prompts) == 0 {
		return nil
	}
	m.form = newForm(*prompts[0], m.width)
	m.form.fresh = true
	m.away = m.input.Value() != "" // a message is being written
	id := m.form.prompt.RequestID
	return tea.Tick(armAfter, func(time.Time) tea.Msg { return armMsg(id) })
}

// nextPrompt shows the next open prompt.
func (m *screen) nextPrompt() {
	prompts := m.conversation.State.Prompts
	for i, p := range prompts {
		if m.form != nil && p.RequestID == m.form.prompt.RequestID {
			m.form = newForm(*prompts[(i+1)%len(prompts)], m.width)
			return
		}
	}
}

func (m *screen) answer(a chat.Answer) tea.Cmd {
	id, request := m.session.ID, m.form.prompt.RequestID
	m.form.sent = true
	m.conversation.answered[request] = true
	return func() tea.Msg {
		_, err := m.cl.Answer(m.ctx, id, request, a)
		return answeredMsg{request, err}
	}
}

func (m *screen) answered(msg answeredMsg) {
	if msg.err == nil {
		return // the event of the answer arrives with the stream
	}
	m.notice = m.explain(msg.err)
	delete(m.conversation.answered, msg.requestID)
	if m.form != nil && m.form.prompt.RequestID == msg.requestID {
		m.form.sent = false
	}
}

// confirmText is the question before a turn that waits for an answer is stopped. Its key does not answer any prompt.
const confirmText = "Stop the turn and withdraw the question? s stops · any other key goes back"

// formLines draws the form and returns the position of the cursor; x is negative without one. A part of the conversation
// stays visible when the window has room for both.
func (m *screen) formLines() (lines []string, x, y int) {
	f := m.form
	room := m.height - 2
	if m.height >= 12 {
		room = m.height - 5
	}
	tail := []string{dim.Render(Clip("  "+m.formHelp(), m.width))}
	if m.confirm {
		tail[0] = "" // its keys mean something else now
	}
	if f.prompt.Permission != nil {
		tail = append([]string{Clip(dim.Render("  for: ")+durationText(f.duration), m.width)}, tail...)
	}
	body := max(1, len(f.rows))
	field := f.field()
	if field != nil {
		body = field.Height()
	}
	room = max(2, room-len(tail))
	lines = cut(m.question(), max(1, room-min(body, 4)))
	x = -1
	if field != nil {
		f.fit(room - len(lines))
		if c := field.Cursor(); c != nil {
			x, y = c.X, c.Y+len(lines)
		}
		lines = append(lines, strings.Split(field.View(), "\n")...)
	} else {
		lines = append(lines, f.rowLines(m.width, max(1, room-len(lines)))...)
	}
	return append(lines, tail...), x, y
}

// question returns the lines of the question.
func (m *screen) question() []string {
	f := m.form
	lines := wrap(PromptTitle(&f.prompt), m.width, asking.Render("? "), strong)
	if a := f.prompt.Approval; a != nil {
		c := f.call()
		count := ""
		if len(a.Calls) > 1 {
			count = fmt.Sprintf(" (%d of %d)", min(len(f.decided)+1, len(a.Calls)), len(a.Calls))
		}
		if c.Risk != "" {
			lines = append(lines, Clip("  "+bad.Render("risk: "+OneLine(c.Risk)), m.width))
		}
		lines = append(lines, f.callLines(c, count, m.width)...)
	}
	if in := f.prompt.Input; in != nil && in.URL != "" && in.URL != in.Text {
		lines = append(lines, wrap(in.URL, m.width, "  ", lipgloss.NewStyle())...)
	}
	return lines
}

// cut keeps the first lines and shows how many are missing.
func cut(lines []string, most int) []string {
	if len(lines) <= most || most < 1 {
		return lines
	}
	if most == 1 {
		return lines[:1]
	}
	rest := len(lines) - most + 1
	return append(lines[:most-1:most-1], dim.Render("… "+Count(rest, "more line", "more lines")))
}

func (m *screen) formHelp() string {
	help := m.form.help()
	if n := len(m.conversation.State.Prompts); n > 1 {
		help += fmt.Sprintf(" · Ctrl+N next of %d", n)
	}
	help += " · Tab message"
	if d := m.form.prompt.Deadline; d != 0 {
		help = countdown(d.Time().Sub(m.now.Add(m.clock))) + " · " + help
	}
	return help
}

// rowLines draws the choices around the cursor.
func (f *form) rowLines(width, most int) []string {
	from := 0
	if len(f.rows) > most {
		from = min(max(0, f.cursor-most/2), len(f.rows)-most)
	}
	var lines []string
	for i := from; i < len(f.rows) && i < from+most; i++ {
		r := f.rows[i]
		mark := "  "
		if i == f.cursor {
			mark = youStyle.Render("▸ ")
		}
		if f.many {
			mark += map[bool]string{true: "[x] ", false: "[ ] "}[r.on]
		} else if i < 9 {
			mark += fmt.Sprintf("%d. ", i+1)
		}
		line := mark + OneLine(r.label)
		if r.hint != "" {
			line += dim.Render(" · " + OneLine(r.hint))
		}
		lines = append(lines, Clip(line, width))
	}
	return lines
}

func durationText(at int) string {
	words := make([]string, len(durations))
	for i, d := range durations {
		words[i] = dim.Render(d)
		if i == at {
			words[i] = strong.Render("[" + d + "]")
		}
	}
	return strings.Join(words, " ")
}
