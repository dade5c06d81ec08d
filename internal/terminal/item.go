package terminal

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/parley-hq/parley/chat"
)

// maxThought is how many lines of reasoning are shown.
const maxThought = 6

// layout returns the lines of an item; none for items that the terminal does not show.
func (c *conversation) layout(it *chat.Item, width int) []string {
	mark := ""
	if it.Workstream != "" {
		mark = dim.Render("[" + OneLine(it.Workstream) + "] ")
	}
	note := func(text string) []string { return wrap(text, width, mark, dim) }
	fault := func(text string) []string { return wrap(text, width, mark+bad.Render("✗ "), bad) }
	switch it.Kind {
	case chat.ItemMessage:
		state := ""
		switch it.Message.State {
		case chat.MessageQueued:
			if c.busy() {
				state = "queued"
			}
		case chat.MessageWithdrawn:
			state = "withdrawn"
		}
		return messageLines(c.author(it.Actor), messageText(chat.UserMessage{Text: it.Message.Text, Content: it.Message.Content}), state, width)
	case chat.ItemText:
		lines := c.textLines(it, width, mark, lipgloss.NewStyle())
		if it.Text.Partial {
			lines[len(lines)-1] = Clip(lines[len(lines)-1], width-13) + dim.Render("  (cut short)")
		}
		return lines
	case chat.ItemThinking:
		lines := c.textLines(it, width, mark+dim.Render("∴ "), thinking)
		if rest := len(lines) - maxThought; rest > 0 && it.Open {
			return append([]string{dim.Render("  …")}, lines[rest:]...)
		} else if rest > 0 {
			return append(lines[:maxThought:maxThought], dim.Render("  … "+Count(rest, "more line", "more lines")))
		}
		return lines
	case chat.ItemTool:
		return []string{Clip(mark+toolMark(it.Tool)+" "+strong.Render(OneLine(it.Tool.Tool))+" "+dim.Render(OneLine(toolText(it.Tool))), width)}
	case chat.ItemPlan:
		return planLines(it.Plan.Tasks, width)
	case chat.ItemPrompt:
		return c.promptLines(it, mark, width)
	case chat.ItemWorkstream:
		return []string{Clip(workMark(it.Work)+" "+strong.Render(workName(it.Work))+" "+dim.Render(it.Work.State+" · "+OneLine(workText(it.Work))), width)}
	case chat.ItemError:
		return fault(it.Error.Message)
	case chat.ItemArtifact:
		return c.artifact(it, mark, width)
	case chat.ItemFile:
		// A message shows the files that were attached to it in a page, or will.
		if attached, _ := path.Match("files/??????????/*", it.File.Path); it.File.Change == "uploaded" && !attached {
			return note("◆ file " + it.File.Path + " (" + Size(it.File.Size) + ")")
		}
	case chat.ItemNotice:
		switch n := it.Notice; n.Code {
		case "notification":
			return note("🔔 " + n.Text)
		case "session_completed":
			return note("the session is completed; a message reopens it")
		case "session_failed":
			return fault("the session failed: " + n.Text)
		case string(chat.Stopped):
			return note("■ stopped")
		case string(chat.Failed):
			return fault("the turn failed: " + cmp.Or(n.Text, "no reason given"))
		case string(chat.Interrupted):
			return fault("the turn was interrupted: " + cmp.Or(n.Text, "no reason given"))
		}
	}
	return nil
}

// textLines lays out a text of an agent behind a mark. A text that is being written ends with a cursor.
func (c *conversation) textLines(it *chat.Item, width int, mark string, base lipgloss.Style) []string {
	indent := ansi.StringWidth(mark)
	d := newPainter(base, c.ticks)
	var lines []string
	if it.Open {
		g := c.growing[it.ID]
		if g == nil {
			g = &growth{}
			c.growing[it.ID] = g
		}
		lines = addCursor(d.growing(g, it.Text.Text, width-indent), width-indent)
	} else {
		delete(c.growing, it.ID)
		lines = d.markdown(it.Text.Text, it.Text.Partial, width-indent)
	}
	if len(lines) == 0 {
		lines = []string{""}
	}
	return prefix(lines, mark, strings.Repeat(" ", indent))
}

// messageLines lays out a message of a person; author is empty for own messages.
func messageLines(author, text, state string, width int) []string {
	mark := youStyle.Render("› ")
	if author != "" {
		mark = authorStyle(author).Render(Clip(author, max(4, width/3)) + " › ")
	}
	lines := wrap(text, width, mark, strong)
	if state != "" {
		lines[len(lines)-1] += dim.Render("  (" + state + ")")
	}
	return append([]string{""}, lines...)
}

// authorStyle gives every name a colour.
func authorStyle(name string) lipgloss.Style {
	sum := 0
	for _, r := range name {
		sum = (sum*31 + int(r)) % 997
	}
	return seriesColors[sum%len(seriesColors)].Bold(true)
}

// promptLines lays out a prompt and its answer. It names the person who answered, unless it is the person at this screen.
func (c *conversation) promptLines(it *chat.Item, mark string, width int) []string {
	p := it.Prompt
	if p.Input == nil && p.Approval == nil && p.Permission == nil {
		return nil // the question is older than the loaded items
	}
	text := OneLine(PromptTitle(&chat.Prompt{Input: p.Input, Approval: p.Approval, Permission: p.Permission}))
	switch {
	case p.Status == chat.PromptOpen:
		text += "  (waits for an answer)"
	case p.Answer == nil:
		text += "  → " + string(p.Status)
	default:
		text += "  → " + OneLine(cmp.Or(chosen(p), answerText(p.Answer), string(p.Status)))
		if name := c.author(p.EndedBy); name != "" {
			text += " (answered by " + name + ")"
		} else if it.Last > c.loaded && !c.answered[p.RequestID] && p.EndedBy != nil {
			text += " (answered by " + OneLine(p.EndedBy.ID) + " elsewhere)"
		}
	}
	return cut(wrap(text, width, mark+asking.Render("? "), lipgloss.NewStyle()), 6)
}

// chosen is the answer to a question with options, in the words that were offered; "" for other answers.
func chosen(p *chat.PromptItem) string {
	if p.Input == nil {
		return ""
	}
	words := slices.Clone(p.Answer.Values)
	for i, v := range words {
		for _, o := range p.Input.Options {
			if o.Answer() == v && o.Label != "" {
				words[i] = o.Label
			}
		}
	}
	return strings.Join(words, ", ")
}

func toolMark(t *chat.ToolItem) string {
	switch t.Status {
	case chat.ToolRunning:
		return busy.Render("⚙")
	case chat.ToolOK:
		return good.Render("✓")
	}
	return bad.Render("✗")
}

// toolText is the progress of a running call, else its parameters and its result.
func toolText(t *chat.ToolItem) string {
	params := masked(paramsText(t.Params))
	switch {
	case t.Status == chat.ToolRunning && t.Progress != nil:
		return progressText(t.Progress.Done, t.Progress.Total) + " " + t.Progress.Message
	case t.Status == chat.ToolOK:
		return params + " → " + masked(string(t.Result))
	case t.Error != "":
		return params + " → " + t.Error
	}
	return params
}

func workMark(w *chat.Workstream) string {
	switch {
	case !w.Ended():
		return busy.Render("⇉")
	case w.State == chat.WorkCompleted:
		return good.Render("✓")
	}
	return bad.Render("✗")
}

// workName is the id of a workstream, which its lines have in front of them, and its name.
func workName(w *chat.Workstream) string {
	if w.Name == "" || w.Name == w.ID {
		return OneLine(w.ID)
	}
	return OneLine(w.ID + " " + w.Name)
}

var phaseWords = map[string]string{
	chat.PhasePlanning: "planning", chat.PhaseTool: "using a tool", chat.PhaseSynthesizing: "writing up", chat.PhaseBlocked: "waiting", chat.PhaseDone: "done",
}

// phaseText says what a workstream does.
func phaseText(w *chat.Workstream) string {
	if w.Phase == chat.PhaseTool && w.Tool != "" {
		return "using " + w.Tool
	}
	return cmp.Or(phaseWords[w.Phase], w.Phase)
}

// workText is the text of the last event of a workstream, else its task.
func workText(w *chat.Workstream) string {
	text := ""
	switch w.State {
	case chat.WorkCompleted, chat.WorkTimeout:
		text = withoutMarkup(w.Summary)
	case chat.WorkFailed:
		text = w.Error
	case chat.WorkCanceling, chat.WorkCanceled:
		text = w.Reason
	default:
		if w.ProgressAt != 0 {
			text = strings.TrimSuffix(phaseText(w)+" · "+w.Message, " · ")
		}
		if w.Warned > 0 {
			text = strings.TrimSpace(text + fmt.Sprintf(" %.0f %% of its time is over", w.Warned*100))
		}
	}
	return cmp.Or(text, w.Task)
}

func planLines(tasks []chat.Task, width int) []string {
	var lines []string
	for _, t := range tasks {
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
