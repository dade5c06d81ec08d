package terminal

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// form is the input of the answer to a prompt.
type form struct {
	prompt chat.Prompt
	rows   []row
	width  int
	cursor int
	many   bool           // several rows can be selected
	edit   textarea.Model // the text of the answer
	typing bool           // keys go to edit
	sent   bool           // the answer was sent
	fresh  bool           // it has just appeared; keys still go to the message

	args    textarea.Model  // the arguments of a call
	editing bool            // keys go to args
	changed json.RawMessage // the edited arguments of the call; nil if they are as the agent sent them
	whole   bool            // all lines of the arguments are shown
	fault   string          // why the edited arguments are not accepted

	decided  []chat.Decision // of an approval, call by call
	duration int             // of a permission
}

// row is one choice.
type row struct {
	label, hint, value string
	on                 bool
}

var durations = []string{"once", "session", "always"}

// Rows of an approval.
const (
	approveOnce = iota
	approveSession
	deny
	edit
)

func newForm(p chat.Prompt, width int) *form {
	f := &form{prompt: p, edit: editor("› ", "")}
	switch {
	case p.Approval != nil:
		f.edit = editor("Reason: ", "")
		f.rows = []row{{label: "Approve"}, {label: "Approve, and do not ask again in this session"}, {label: "Deny…"}, {label: "Edit the arguments…"}}
		f.args = argumentEditor(width)
	case p.Permission != nil:
		f.many = true
		for _, s := range p.Permission.Scopes {
			f.rows = append(f.rows, row{label: s, value: s, on: true})
		}
	default:
		f.typing = p.Input.InputType == chat.InputText
		f.edit.Placeholder = OneLine(p.Input.Placeholder)
		f.many = p.Input.InputType == chat.InputCheckbox
		for _, o := range p.Input.Options {
			f.rows = append(f.rows, row{label: cmp.Or(o.Label, o.Answer()), hint: o.Description, value: o.Answer()})
		}
	}
	f.resize(width)
	return f
}

// takes reports whether the form uses a key. Other letters start a message.
func (f *form) takes(k tea.KeyPressMsg) bool {
	text := k.Key().Text
	if text == "" || f.typing || f.editing || f.sent {
		return true
	}
	keys := "jk x123456789"
	switch {
	case f.prompt.Approval != nil:
		keys += "ynev"
	case f.prompt.Permission != nil:
		keys += "d"
	}
	return strings.Contains(keys, text)
}

// key handles a key; ready says that the answer is complete.
func (f *form) key(k tea.KeyPressMsg) (a chat.Answer, ready bool) {
	if f.sent {
		return a, false
	}
	if f.editing {
		if k.String() == "enter" {
			f.keepArguments()
		} else {
			f.args, _ = f.args.Update(k)
		}
		return a, false
	}
	if f.typing {
		if k.String() == "enter" {
			return f.submit()
		}
		f.edit, _ = f.edit.Update(k)
		return a, false
	}
	return f.rowKey(k.String())
}

// rowKey handles a key while the choices receive the keys.
func (f *form) rowKey(key string) (a chat.Answer, ready bool) {
	switch key {
	case "up", "k", "shift+tab":
		f.cursor = max(0, f.cursor-1)
	case "down", "j":
		f.cursor = max(0, min(len(f.rows)-1, f.cursor+1))
	case "home":
		f.cursor = 0
	case "end":
		f.cursor = max(0, len(f.rows)-1)
	case "space", "x":
		if f.many && f.cursor < len(f.rows) {
			f.rows[f.cursor].on = !f.rows[f.cursor].on
		}
	case "left", "right":
		if f.prompt.Permission != nil {
			step := map[string]int{"left": len(durations) - 1, "right": 1}[key]
			f.duration = (f.duration + step) % len(durations)
		}
	case "d":
		if f.prompt.Permission != nil {
			for i := range f.rows {
				f.rows[i].on = false
			}
			return f.submit()
		}
	case "y", "n", "e":
		if f.prompt.Approval != nil {
			f.cursor = map[string]int{"y": approveOnce, "n": deny, "e": edit}[key]
			return f.submit()
		}
	case "v":
		f.whole = !f.whole
	case "enter":
		return f.submit()
	default:
		if len(key) == 1 && key[0] >= '1' && key[0] <= '9' && int(key[0]-'1') < len(f.rows) {
			f.cursor = int(key[0] - '1')
			if !f.many {
				return f.submit()
			}
			f.rows[f.cursor].on = !f.rows[f.cursor].on
		}
	}
	return a, false
}

// pasted handles text from the clipboard.
func (f *form) pasted(msg tea.PasteMsg) {
	switch {
	case f.sent:
	case f.editing:
		f.args, _ = f.args.Update(msg)
	case f.typing:
		f.edit, _ = f.edit.Update(msg)
	}
}

// draft is the text of an answer that is not sent.
func (f *form) draft() string {
	if f.typing && f.prompt.Input != nil {
		return strings.TrimSpace(f.edit.Value())
	}
	return ""
}

// back ends the input of a reason or of arguments without using it; it reports whether there was one.
func (f *form) back() bool {
	if f.editing {
		f.editing, f.fault, f.cursor = false, "", approveOnce
		return true
	}
	if f.typing && f.prompt.Approval != nil {
		f.untype()
		return true
	}
	return false
}

// submit takes the current choice. An approval of several calls continues with the next call.
func (f *form) submit() (a chat.Answer, ready bool) {
	switch {
	case f.prompt.Approval != nil:
		return f.decide()
	case f.prompt.Permission != nil:
		granted := f.ticked()
		return chat.Answer{Granted: &granted, Duration: durations[f.duration]}, true
	case f.typing:
		return chat.Answer{Text: f.edit.Value()}, true
	case f.many:
		return chat.Answer{Values: f.ticked()}, true
	case len(f.rows) > 0:
		return chat.Answer{Values: []string{f.rows[f.cursor].value}}, true
	}
	return chat.Answer{Text: "done"}, true // the consent was given in the browser
}

func (f *form) ticked() []string {
	on := []string{}
	for _, r := range f.rows {
		if r.on {
			on = append(on, r.value)
		}
	}
	return on
}

func (f *form) decide() (a chat.Answer, ready bool) {
	if f.cursor == edit {
		f.editArguments()
		return a, false
	}
	d := chat.Decision{CallID: f.call().CallID, Approve: f.cursor != deny}
	if d.Approve {
		d.Params = f.changed
	}
	if f.cursor == deny && !f.typing {
		f.typing = true
		return a, false
	}
	if f.cursor == deny {
		d.Reason = strings.TrimSpace(f.edit.Value())
	}
	if f.cursor == approveSession {
		d.Remember = "session"
	}
	f.decided, f.changed = append(f.decided, d), nil
	if len(f.decided) < len(f.prompt.Approval.Calls) {
		f.cursor = 0
		f.untype()
		return a, false
	}
	a.Decisions, f.decided = f.decided, nil
	f.untype()
	return a, true
}

func (f *form) untype() {
	f.typing = false
	f.edit.Reset()
}

// call is the call that is decided next.
func (f *form) call() chat.ApprovalCall {
	calls := f.prompt.Approval.Calls
	return calls[min(len(f.decided), len(calls)-1)]
}

// help describes the keys.
func (f *form) help() string {
	switch {
	case f.sent:
		return "sending…"
	case f.editing:
		return "Enter keeps the change · Alt+Enter new line · Ctrl+O editor · Esc drops it"
	case f.typing && f.prompt.Approval != nil:
		return "Enter denies · Esc back"
	case f.typing:
		return "Enter answers · Esc stops the turn"
	case f.prompt.Permission != nil:
		return "Space ticks · ←→ how long · Enter grants · d denies all"
	case f.prompt.Approval != nil:
		return "y approve · n deny · e edit · ↑↓ Enter"
	case f.many:
		return "Space ticks · Enter answers"
	case len(f.rows) > 0:
		return "↑↓ or 1-9 · Enter answers"
	}
	return "open the address, then press Enter"
}

// countdown formats the time that is left.
func countdown(d time.Duration) string {
	d = max(0, d).Round(time.Second)
	if d >= time.Hour {
		return fmt.Sprintf("%dh %02dm left", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d:%02d left", int(d.Minutes()), int(d.Seconds())%60)
}
