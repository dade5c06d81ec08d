package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
)

// lookBack is how many items are searched for what the agent does.
const lookBack = 60

// activity is the line below the conversation that says what a running turn does and for how long, or how many workstreams run; nil
// when nothing runs, or when the turn waits for a person.
func (c *conversation) activity(width int) []string {
	const hint = " · Esc stops"
	turn := c.State.Line("").Turn
	if turn == nil {
		if n := c.working(); n > 0 {
			return []string{Clip(busy.Render(spinner(c.now)+" "+runningText(n))+dim.Render(hint), width)}
		}
		return nil
	}
	if slices.ContainsFunc(c.State.Prompts, func(p *chat.Prompt) bool { return p.Workstream == "" }) {
		return nil
	}
	text := busy.Render(spinner(c.now) + " " + OneLine(c.doing(turn)))
	if d := c.now.Sub(turn.StartedAt.Time()); d >= time.Second {
		text += dim.Render(" · " + elapsed(d))
	}
	if turn.Stopping {
		return []string{Clip(text+dim.Render(" · stopping"), width)}
	}
	// The end of the line stays visible however long the status is.
	return []string{Clip(text, width-len(hint)) + dim.Render(hint)}
}

// doing is what a turn does: its tools, thinking or writing, the status that it reported last, its workstreams.
func (c *conversation) doing(turn *chat.Turn) string {
	for i := range c.Open {
		if it := &c.Open[i]; it.Turn == turn.ID && it.Workstream == "" {
			if it.Kind == chat.ItemThinking {
				return "thinking"
			}
			return "writing"
		}
	}
	var tools []string
	status, at := "", chat.Seq(0)
	for i := len(c.Items) - 1; i >= max(0, len(c.Items)-lookBack); i-- {
		it := &c.Items[i]
		if it.Turn != turn.ID || it.Workstream != "" {
			continue
		}
		if it.Tool != nil && it.Tool.Status == chat.ToolRunning {
			name := cmp.Or(it.Tool.Tool, "a tool")
			if p := it.Tool.Progress; p != nil && p.Message != "" {
				name += " (" + p.Message + ")"
			}
			if !slices.Contains(tools, name) {
				tools = append(tools, name)
			}
		}
		if it.Last > at {
			at, status = it.Last, ""
			if it.Status != nil {
				status = it.Status.Message
			}
		}
	}
	if len(tools) > 0 {
		slices.Reverse(tools)
		return "using " + strings.Join(tools, ", ")
	}
	switch n := c.working(); {
	case status != "":
		return status
	case n > 0:
		return runningText(n)
	}
	return "working"
}

func runningText(n int) string { return Count(n, "workstream runs", "workstreams run") }

// elapsed formats a duration in seconds and minutes.
func elapsed(d time.Duration) string {
	s := int(d.Seconds())
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %02d s", s/60, s%60)
	}
	return fmt.Sprintf("%d h %02d min", s/3600, s/60%60)
}

func spinner(now time.Time) string {
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	return string(frames[int(now.Unix())%len(frames)])
}
