package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/terminal"
)

// WatchCmd follows a session.
type WatchCmd struct {
	serverFlags `embed:""`
	Session     string `arg:"" help:"The session."`
	After       string `help:"Start after this sequence or cursor; 0 is the first event. Without it, only new events are printed." placeholder:"CURSOR"`
	JSON        bool   `help:"One JSON object per line: events as they are stored, and previews."`
	Until       bool   `help:"End when all events are printed and no turn is running." name:"until-idle"`
}

// Run prints events until it is interrupted or the session is erased.
func (c *WatchCmd) Run(ctx context.Context, std *stdio) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	down := false
	opt := client.WatchOptions{After: c.After, Link: func(l client.Link) {
		switch {
		case l.Up && down:
			fmt.Fprintln(std.err, "connected again")
		case !l.Up && !down:
			fmt.Fprintf(std.err, "connection lost, reconnecting (%s)\n", explain(l.Err))
		}
		down = !l.Up
	}}
	id := chat.SessionID(c.Session)
	if _, err := cl.Get(ctx, id); err != nil {
		return missing(err, id)
	}
	last := chat.Seq(0) // the last event when the stream started
	for f, err := range cl.Watch(ctx, id, opt) {
		if err != nil {
			if ctx.Err() != nil {
				return nil // Ctrl-C is the normal end
			}
			return err
		}
		if c.JSON {
			err = printJSON(std.out, f)
		} else {
			err = printLine(std.out, f)
		}
		if err != nil {
			return err
		}
		if f.Hello != nil {
			last = f.Hello.Last
		}
		// A session does not become idle with an event of an agent.
		if !c.Until || f.Preview != nil || f.Cursor.Seq < last || f.Event != nil && strings.HasPrefix(f.Event.Type, "agent.") {
			continue
		}
		if s, err := cl.Get(ctx, id); err != nil || s.Last <= f.Cursor.Seq && s.Status != chat.Running && s.Status != chat.Waiting {
			return err
		}
	}
	return nil
}

func printJSON(w io.Writer, f client.Frame) error {
	var b []byte
	switch {
	case f.Event != nil:
		b = f.Event.AppendJSON(b)
	case f.Preview != nil:
		b = append(b, `{"type":"preview","cursor":"`...)
		b = append(f.Cursor.Append(b), `","preview":`...)
		b = append(f.Preview.AppendJSON(b), '}')
	default:
		return nil
	}
	_, err := w.Write(append(b, '\n'))
	return err
}

// printLine prints an event in one line. Previews are not printed: the event has the whole text.
func printLine(w io.Writer, f client.Frame) error {
	if f.Event == nil {
		return nil
	}
	e := f.Event
	line := ""
	if e.Workstream != "" {
		line = " [" + e.Workstream + "]"
	}
	_, err := fmt.Fprintf(w, "%6d  %s  %-24s%s %s\n", e.Seq, e.At.Time().Local().Format("15:04:05.000"), e.Type, line, terminal.Clip(terminal.OneLine(terminal.EventText(e)), 160))
	return err
}
