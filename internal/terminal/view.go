package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// The sixteen colours of the terminal are used, so that its own theme decides.
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

// View draws the whole screen: the conversation, what is asked or written, and
// a line about the state of things.
func (m *screen) View() tea.View {
	bottom, cursor := m.bottom()
	room := max(0, m.height-len(bottom))
	lines := m.visible(room)
	at := len(lines)
	lines = append(lines, bottom...)
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen, v.MouseMode = true, tea.MouseModeCellMotion
	v.WindowTitle = "parley " + cmp.Or(OneLine(m.session.Title), string(m.session.ID))
	if cursor != nil {
		cursor.Y += at
		v.Cursor = cursor
	}
	return v
}

// visible is the part of the conversation that is on the screen, room lines high.
func (m *screen) visible(room int) []string {
	want := room + m.scroll
	var parts [][]string
	have := 0
	for _, o := range m.outbox {
		parts = append(parts, m.draw(&item{kind: userItem, text: o.text, state: "not sent yet"}))
	}
	slices.Reverse(parts) // newest first, as all of them here
	for _, q := range slices.Backward(m.talk.queue) {
		parts = append(parts, m.draw(q.item))
	}
	for _, p := range parts {
		have += len(p)
	}
	for _, i := range slices.Backward(m.talk.items) {
		if have >= want {
			break
		}
		p := m.draw(i)
		parts = append(parts, p)
		have += len(p)
	}
	m.scroll = max(0, min(m.scroll, have-room)) // no further than the first line
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
		dim.Render("Write a message and press Enter. Alt+Enter begins a new line."),
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

// draw lays an item out, or takes what was laid out before.
func (m *screen) draw(i *item) []string {
	if i.drawn.lines != nil && i.drawn.width == m.width && i.drawn.rev == i.rev && !(i.live && i.kind != textItem && i.kind != thinkingItem) {
		return i.drawn.lines
	}
	lines := layout(i, m.width)
	i.drawn = drawn{width: m.width, rev: i.rev, lines: lines}
	return lines
}

// maxThought is how many lines of reasoning are shown.
const maxThought = 6

func layout(i *item, width int) []string {
	mark := ""
	if i.line != "" {
		mark = dim.Render("[" + i.line + "] ")
	}
	switch i.kind {
	case userItem:
		lines := wrap(i.text, width, youStyle.Render("› "), strong)
		if i.state != "" {
			lines[len(lines)-1] += dim.Render("  (" + i.state + ")")
		}
		return append([]string{""}, lines...)
	case textItem:
		text := i.text
		if i.live {
			text += "▌"
		}
		lines := wrap(text, width, mark, lipgloss.NewStyle())
		if i.state != "" {
			lines[len(lines)-1] += dim.Render("  (" + i.state + ")")
		}
		return lines
	case thinkingItem:
		lines := wrap(i.text, width, mark+dim.Render("∴ "), thinking)
		if rest := len(lines) - maxThought; rest > 0 && i.live {
			return append([]string{dim.Render("  …")}, lines[rest:]...)
		} else if rest > 0 {
			return append(lines[:maxThought:maxThought], dim.Render("  … "+Count(rest, "more line", "more lines")))
		}
		return lines
	case toolItem:
		return []string{Clip(mark+toolMark(i)+" "+strong.Render(OneLine(i.text))+" "+dim.Render(OneLine(toolRest(i))), width)}
	case planItem:
		return planLines(i, width)
	case askItem:
		text := OneLine(i.text)
		if i.live {
			text += "  (waits for an answer)"
		} else {
			text += "  → " + OneLine(cmp.Or(i.extra, i.state))
		}
		return cut(wrap(text, width, mark+asking.Render("? "), lipgloss.NewStyle()), 6)
	case streamItem:
		return []string{Clip(busyMark(i)+" "+strong.Render(OneLine(i.text))+" "+dim.Render(i.state+" · "+OneLine(i.extra)), width)}
	case faultItem:
		return wrap(i.text, width, mark+bad.Render("✗ "), bad)
	}
	return wrap(i.text, width, mark, dim)
}

func toolMark(i *item) string {
	switch {
	case i.live:
		return busy.Render("⚙")
	case i.state == "failed" || i.state == "no result":
		return bad.Render("✗")
	}
	return good.Render("✓")
}

func toolRest(i *item) string {
	if i.live && i.state != "running" {
		return i.state
	}
	return strings.TrimPrefix(i.extra, "{}")
}

func busyMark(i *item) string {
	if i.live {
		return busy.Render("⇉")
	}
	if i.state == "completed" {
		return good.Render("✓")
	}
	return bad.Render("✗")
}

func planLines(i *item, width int) []string {
	var lines []string
	for _, t := range i.plan {
		mark, style := "☐", dim
		switch t.Status {
		case "in_progress":
			mark, style = "◐", busy
		case "done":
			mark, style = "☑", good
		case "failed":
			mark, style = "✗", bad
		case "skipped":
			mark = "–"
		}
		lines = append(lines, Clip("  "+style.Render(mark)+" "+OneLine(t.Title), width))
	}
	return lines
}

// wrap breaks a text into lines behind a prefix; further lines are indented to
// the same column.
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

// bottom is what stands below the conversation, and where the cursor is in it.
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

// stateLine is the last line: the connection, what the agent does, the session.
func (m *screen) stateLine() string {
	left := good.Render("●") + " "
	switch {
	case !m.link.Up && m.link.Err != nil:
		left = bad.Render("○") + " offline, trying again "
	case !m.link.Up:
		left = busy.Render("○") + " connecting "
	}
	switch {
	case m.notice != "":
		left += busy.Render(OneLine(m.notice))
	case m.scroll > 0:
		left += dim.Render(fmt.Sprintf("%d lines below · PgDn", m.scroll))
	case len(m.talk.prompts) > 0:
		left += asking.Render("waits for you")
		if m.away {
			left += dim.Render(" · Tab answers")
		}
	case m.talk.busy():
		left += busy.Render(spinner(m.now)+" "+cmp.Or(OneLine(m.talk.status), "working")) + dim.Render(" · Esc stops")
	case m.link.Up:
		left += dim.Render("ready")
	}
	if n := len(m.outbox); n > 0 {
		left += dim.Render(fmt.Sprintf(" · %d not sent yet", n))
	}
	if n := len(m.talk.queue); n > 0 && m.talk.busy() {
		left += dim.Render(fmt.Sprintf(" · %d queued", n))
	}
	right := OneLine(m.session.Agent) + " · " + string(m.session.ID)
	if u := m.talk.usage; u.InputTokens+u.OutputTokens > 0 {
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

func spinner(now time.Time) string {
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	return string(frames[int(now.Unix())%len(frames)])
}
