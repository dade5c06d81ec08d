package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// check compares what the server has with what it acknowledged. The work has
// ended.
func (c *campaign) check(ctx context.Context, l *load) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := &c.counts
	n.acknowledged = l.acks
	for _, err := range l.problems {
		n.fail(&n.lost, "a request failed for good: %v", err)
	}
	for id, acknowledged := range l.events {
		events, err := readAll(ctx, l.c, id)
		if err != nil {
			return err
		}
		keys := map[string]chat.Seq{}
		for _, e := range events {
			if e.ClientID == "" {
				continue
			}
			key := e.Actor.Key() + " " + e.ClientID
			if keys[key] != 0 {
				n.fail(&n.doubled, "%s: %s is stored as %d and as %d", id, key, keys[key], e.Seq)
			}
			keys[key] = e.Seq
		}
		for key, e := range acknowledged {
			if int(e.Seq) > len(events) || !same(e, events[e.Seq-1]) {
				n.fail(&n.lost, "%s: %s was acknowledged as event %d and is not there", id, key, e.Seq)
			}
		}
		for i, e := range l.seen[id] {
			if i >= len(events) || !same(e, events[i]) {
				n.fail(&n.lost, "%s: a reader saw event %d as number %d, the log has another one there", id, e.Seq, i+1)
				break
			}
		}
		c.turns(id, events, l.answers[id])
	}
	for id, files := range l.files {
		for path, want := range files {
			body, _, err := l.c.Download(ctx, id, path)
			var got []byte
			if err == nil {
				got, err = io.ReadAll(body)
				body.Close()
			}
			switch {
			case want == nil && chat.CodeOf(err) != chat.NotFound:
				n.fail(&n.lost, "%s/%s was removed and is there: %v", id, path, err)
			case want != nil && (err != nil || !bytes.Equal(got, want)):
				n.fail(&n.lost, "%s/%s has %d bytes, %d were acknowledged: %v", id, path, len(got), len(want), err)
			}
		}
	}
	return nil
}

// turns checks that each message was answered once with the right text.
func (c *campaign) turns(id chat.SessionID, events []chat.Event, answers map[chat.Seq]string) {
	n := &c.counts
	text, ended, started := map[chat.TurnID]string{}, map[chat.TurnID]chat.TurnCompleted{}, map[chat.Seq]chat.TurnID{}
	for _, e := range events {
		switch b := e.Body.(type) {
		case chat.TurnStarted:
			started[b.Trigger] = b.TurnID
		case chat.AgentText:
			text[e.Turn] += b.Text
		case chat.TurnCompleted:
			if ended[b.TurnID].Outcome != "" {
				n.fail(&n.doubled, "%s: turn %s ended twice", id, b.TurnID)
			}
			ended[b.TurnID] = b
		}
	}
	for seq, want := range answers {
		turn := started[seq]
		switch {
		case ended[turn].Outcome == "":
			n.fail(&n.stuck, "%s: the turn for message %d did not end", id, seq)
		case ended[turn].Outcome != chat.Done:
			n.fail(&n.lost, "%s: the turn for message %d ended as %s: %s", id, seq, ended[turn].Outcome, ended[turn].Error)
		case text[turn] != want:
			n.fail(&n.lost, "%s: message %d was answered with %d bytes instead of %d", id, seq, len(text[turn]), len(want))
		}
	}
}

func same(a, b chat.Event) bool { return bytes.Equal(a.AppendJSON(nil), b.AppendJSON(nil)) }

func readAll(ctx context.Context, c *client.Client, id chat.SessionID) ([]chat.Event, error) {
	var all []chat.Event
	for e, err := range c.Events(ctx, id, client.EventQuery{}) {
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", id, err)
		}
		all = append(all, e)
	}
	return all, nil
}

// verify runs `parley verify` and returns what it printed, and whether it found
// everything in order.
func (c *campaign) verify(ctx context.Context, url string) (string, bool) {
	out, err := exec.CommandContext(ctx, c.binary, "verify", "--url", url).CombinedOutput()
	return string(out), err == nil
}

// search looks for erased texts in every file of the data folder.
func (c *campaign) search(l *load) error {
	return filepath.WalkDir(c.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, text := range l.erased {
			if bytes.Contains(b, []byte(text)) {
				name, _ := filepath.Rel(c.data, path) // of a file below it
				c.counts.fail(&c.counts.left, "%s still holds an erased text", name)
			}
		}
		return nil
	})
}
