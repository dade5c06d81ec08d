package terminal

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"unicode"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// argumentEditor is the field in which the arguments of a call are edited.
func argumentEditor(width int) textarea.Model {
	in := editor("  ", "")
	in.MaxHeight, in.CharLimit = maxArgumentLines, chat.MaxEvent
	in.SetWidth(width)
	return in
}

// maxArgumentLines is how many lines of the arguments are visible while they are edited.
const maxArgumentLines = 12

// maxFoldedLines is how many lines of the arguments are visible until a person asks for all of them.
const maxFoldedLines = 6

// field is the field that receives the keys; nil when none does.
func (f *form) field() *textarea.Model {
	switch {
	case f.editing:
		return &f.args
	case f.typing:
		return &f.edit
	}
	return nil
}

// fit limits the height of the field to the room that it has.
func (f *form) fit(room int) {
	limit := maxAnswerLines
	if f.editing {
		limit = maxArgumentLines
	}
	field := f.field()
	if limit = max(1, min(limit, room)); field.MaxHeight != limit {
		field.MaxHeight = limit
		field.SetWidth(f.width) // computes the height
	}
}

func (f *form) resize(width int) {
	f.width = width
	f.edit.SetWidth(width)
	if f.prompt.Approval != nil {
		f.args.SetWidth(width)
	}
}

// arguments are the arguments of the call as they would be approved.
func (f *form) arguments() json.RawMessage {
	if f.changed != nil {
		return f.changed
	}
	return f.call().Params
}

// callLines draws the call that is decided, without its arguments while they are edited.
func (f *form) callLines(c chat.ApprovalCall, count string, width int) []string {
	if f.editing {
		lines := wrap(c.Tool+count, width, "  ", lipgloss.NewStyle())
		if f.fault != "" {
			lines = append(lines, wrap(f.fault, width, "  "+bad.Render("✗ "), bad)...)
		}
		return lines
	}
	text := masked(paramsText(f.arguments()))
	lines := wrap(c.Tool+" "+text+count, width, "  ", lipgloss.NewStyle())
	if len(lines) > maxFoldedLines {
		lines = wrap(c.Tool+count, width, "  ", lipgloss.NewStyle())
		all := strings.Split(argumentText(json.RawMessage(text)), "\n")
		shown := all
		if !f.whole {
			shown = all[:min(len(all), maxFoldedLines)]
		}
		for _, line := range shown {
			lines = append(lines, Clip("  "+line, width))
		}
		if rest := len(all) - len(shown); rest > 0 {
			lines = append(lines, dim.Render(Clip("  … "+Count(rest, "more line", "more lines")+" · v shows all · Ctrl+O editor", width)))
		}
	}
	if f.changed != nil {
		lines = append(lines, "  "+busy.Render("you changed the arguments"))
	}
	return lines
}

// editArguments opens the field with the arguments.
func (f *form) editArguments() {
	f.editing, f.fault = true, ""
	f.args.SetValue(argumentText(f.arguments()))
	f.args.MoveToBegin()
}

// keepArguments takes the arguments from the field, if they are valid, and returns to the choices.
func (f *form) keepArguments() {
	var compact, before bytes.Buffer
	original := cmp.Or(string(f.call().Params), "{}")
	text := strings.TrimSpace(f.args.Value())
	if err := json.Compact(&compact, []byte(text)); err != nil {
		f.fault = "this is not valid JSON: " + err.Error()
		return
	}
	if strings.HasPrefix(strings.TrimSpace(original), "{") && !strings.HasPrefix(text, "{") {
		f.fault = "the arguments must be a JSON object"
		return
	}
	f.changed = nil
	if json.Compact(&before, []byte(original)) != nil || !bytes.Equal(escapeControls(before.Bytes()), compact.Bytes()) {
		f.changed = compact.Bytes()
	}
	f.editing, f.fault, f.cursor = false, "", approveOnce
}

// argumentText is the arguments in a form that is easy to edit.
func argumentText(params json.RawMessage) string {
	var out bytes.Buffer
	if len(params) == 0 || json.Indent(&out, params, "", "  ") != nil {
		return "{}"
	}
	return string(escapeControls(out.Bytes()))
}

// escapeControls writes characters that could control the terminal as JSON escapes. JSON has them only inside strings, so the
// value stays the same.
func escapeControls(b []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(b) {
		if unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' || bidi(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes()
}

// editedMsg says that the person has left the editor.
type editedMsg struct {
	requestID string
	text      string
	err       error
}

// openEditor opens the arguments in the editor of the environment.
func (m *screen) openEditor() tea.Cmd {
	f := m.form
	if !f.editing {
		f.editArguments()
	}
	id := f.prompt.RequestID
	path, err := argumentFile(f.args.Value())
	if err != nil {
		m.notice = m.explain(err)
		return nil
	}
	words := strings.Fields(cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi"))
	if len(words) == 0 {
		words = []string{"vi"}
	}
	cmd := exec.CommandContext(m.ctx, words[0], append(words[1:], path)...)
	return tea.ExecProcess(cmd, func(err error) tea.Msg {
		defer os.Remove(path)
		if err != nil {
			return editedMsg{requestID: id, err: fmt.Errorf("the editor %s failed: %w", words[0], err)}
		}
		text, err := readLimited(path)
		return editedMsg{requestID: id, text: text, err: err}
	})
}

// argumentFile writes the arguments to a file that only this person can read.
func argumentFile(text string) (path string, err error) {
	file, err := os.CreateTemp("", "parley-arguments-*.json")
	if err != nil {
		return "", err
	}
	_, err = io.WriteString(file, text+"\n")
	if end := file.Close(); err == nil {
		err = end
	}
	if err != nil {
		_ = os.Remove(file.Name()) // the first error counts
	}
	return file.Name(), err
}

func readLimited(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, chat.MaxEvent))
	return string(b), err
}

// edited takes what the editor has written. Arguments that are not valid stay in the field.
func (m *screen) edited(msg editedMsg) {
	f := m.form
	if f == nil || f.prompt.RequestID != msg.requestID || f.sent {
		m.notice = "the question is closed"
		return
	}
	if msg.err != nil {
		m.notice = m.explain(msg.err)
		return
	}
	f.editing = true
	f.args.SetValue(string(escapeControls([]byte(strings.TrimSpace(msg.text)))))
	f.keepArguments()
}
