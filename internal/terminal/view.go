package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// The styles use the sixteen colours of the terminal, so that its theme applies.
var (
	dim      = lipgloss.NewStyle().Faint(true)
	strong   = lipgloss.NewStyle().Bold(true)
	youStyle = lipgloss.NewStyle().Foreground(lipgloss.Color("6")).Bold(true)
	thinking = lipgloss.NewStyle().Faint(true).Italic(true)
	good     = lipgloss.NewStyle().Foreground(lipgloss.Color("2"))
	bad      = lipgloss.NewStyle().Foreground(lipgloss.Color("1"))
	busy     = lipgloss.NewStyle().Foreground(lipgloss.Color("3"))
	asking   = lipgloss.NewStyle().Foreground(lipgloss.Color("5")).Bold(true)
)

func inputStyles() textarea.Styles {
	s := textarea.DefaultDarkStyles()
	s.Focused.CursorLine = lipgloss.NewStyle()
	s.Focused.Prompt, s.Focused.Placeholder = youStyle, dim
	s.Blurred = s.Focused
	return s
}

// View draws the whole screen: the conversation, the prompt or the message that is being written, and the status line.
func (m *screen) View() tea.View {
	bottom, cursor := m.bottom()
	room := max(0, m.height-len(bottom))
	lines := m.visible(room)
	at := len(lines)
	lines = append(lines, bottom...)
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen, v.MouseMode = true, tea.MouseModeCellMotion
	v.WindowTitle = "parley " + cmp.Or(OneLine(m.conversation.State.Session.Title), OneLine(m.conversation.State.Session.Heading), string(m.session.ID))
	if cursor != nil {
		cursor.Y += at
		v.Cursor = cursor
	}
	return v
}

// visible returns the lines of the conversation that are on the screen, room lines in all.
func (m *screen) visible(room int) []string {
	want := room + m.scroll
	m.conversation.now = m.now.Add(m.clock)
	var parts [][]string // from bottom to top
	have := 0
	for _, o := range slices.Backward(m.outbox) {
		parts = append(parts, messageLines("", o.text, notSent, m.width))
		have += len(parts[len(parts)-1])
	}
	for lines := range m.conversation.backward(m.width) {
		if have >= want {
			break
		}
		parts = append(parts, lines)
		have += len(lines)
	}
	m.scroll = max(0, min(m.scroll, have-room)) // not beyond the first line
	var lines []string
	for _, p := range slices.Backward(parts) {
		lines = append(lines, p...)
	}
	if len(lines) == 0 {
		lines = m.welcome()
	}
	end := max(0, len(lines)-m.scroll)
	lines = lines[max(0, end-room):end]
	out := make([]string, 0, room)
	out = append(out, lines...)
	for len(out) < room {
		out = append(out, "")
	}
	return out
}

func (m *screen) welcome() []string {
	lines := []string{
		"", strong.Render("Parley") + dim.Render(" · talking with ") + OneLine(m.session.Agent), "",
		dim.Render("Write a message and press Enter. Alt+Enter starts a new line."),
		dim.Render("Esc stops the agent. Ctrl+C leaves; the conversation stays."),
	}
	if m.session.Agent == "demo" {
		lines = append(lines, dim.Render("/help lists what the demo agent can do; /tour shows a bit of everything."))
	}
	for i := range lines {
		lines[i] = Clip(lines[i], m.width)
	}
	return lines
}

// wrap breaks a text into lines. The first starts with the prefix, the others are indented to the same column.
func wrap(text string, width int, prefix string, style lipgloss.Style) []string {
	indent := ansi.StringWidth(prefix)
	text = strings.ReplaceAll(Sanitize(strings.TrimRight(text, "\n")), "\t", "    ")
	lines := strings.Split(ansi.Wrap(text, max(8, width-indent), ""), "\n")
	for i, l := range lines {
		if i > 0 {
			prefix = strings.Repeat(" ", indent)
		}
		lines[i] = prefix + style.Render(l)
	}
	return lines
}

// bottom returns the lines below the conversation and the position of the cursor in them.
func (m *screen) bottom() ([]string, *tea.Cursor) {
	var lines []string
	if m.height >= 8 {
		lines = []string{dim.Render(strings.Repeat("─", m.width))}
	}
	above := len(lines)
	var cursor *tea.Cursor
	if m.form != nil && !m.away {
		var x, y int
		var rows []string
		rows, x, y = m.formLines()
		if x >= 0 {
			cursor = tea.NewCursor(x, y+above)
		}
		lines = append(lines, rows...)
	} else {
		cursor = m.input.Cursor()
		if cursor != nil {
			cursor.Y += above
		}
		lines = append(lines, strings.Split(m.input.View(), "\n")...)
	}
	return append(lines, m.stateLine()), cursor
}

// stateLine is the last line: connection, activity of the agent, session.
func (m *screen) stateLine() string {
	left := good.Render("●") + " "
	switch {
	case !m.link.Up && m.link.Err != nil:
		left = bad.Render("○") + " offline, trying again · "
	case !m.link.Up:
		left = busy.Render("○") + " connecting · "
	}
	switch {
	case m.confirm:
		return Clip(left+asking.Render(confirmText), m.width)
	case m.notice != "":
		left += busy.Render(OneLine(m.notice))
	case m.scroll > 0:
		left += dim.Render(fmt.Sprintf("%d lines below · PgDn", m.scroll))
	case len(m.conversation.State.Prompts) > 0:
		left += asking.Render("waits for you")
		if m.away {
			left += dim.Render(" · Tab answers")
		}
	case m.conversation.runs():
		left += busy.Render("working")
	case m.link.Up:
		left += dim.Render("ready")
	}
	left = strings.TrimSuffix(left, " · ")
	if n := len(m.outbox); n > 0 {
		left += dim.Render(fmt.Sprintf(" · %d not sent yet", n))
	}
	if n := len(m.conversation.waiting); n > 0 && m.conversation.busy() {
		left += dim.Render(fmt.Sprintf(" · %d queued", n))
		if _, ok := m.lastQueued(); ok && m.input.Value() == "" && (m.form == nil || m.away) {
			left += dim.Render(" · ↑ edits it")
		}
	}
	right := OneLine(m.session.Agent) + " · " + string(m.session.ID)
	if u := m.conversation.State.Usage; u.InputTokens+u.OutputTokens > 0 {
		right = fmt.Sprintf("%d↑ %d↓ · ", u.InputTokens, u.OutputTokens) + right
	}
	gap := m.width - ansi.StringWidth(left) - ansi.StringWidth(right)
	if gap < 1 {
		room := m.width - ansi.StringWidth(left) - 1
		if room < 8 {
			return Clip(left, m.width)
		}
		right, gap = Clip(right, room), 1
	}
	return left + strings.Repeat(" ", gap) + dim.Render(right)
}
