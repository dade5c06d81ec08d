package turnlog_test

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/turnlog"
)

// overtakingLog is the log of a node that shows the event that finishes a block before the last pieces of the block.
type overtakingLog struct {
	turnlog.Sessions
	entries []core.Entry
	ends    []chat.End
}

func (l *overtakingLog) Watch(context.Context, chat.Caller, chat.SessionID, core.Start, core.Encoding) iter.Seq2[core.Batch, error] {
	return func(yield func(core.Batch, error) bool) { yield(core.Batch{Live: true, Entries: l.entries}, nil) }
}

func (l *overtakingLog) Ends(context.Context, chat.Caller, chat.SessionID, chat.Seq) ([]chat.End, error) {
	return l.ends, nil
}

func TestLiveReaderGetsThePiecesThatTheirEventHasOvertaken(t *testing.T) {
	body := chat.AgentText{Block: "b", Text: "one two three"}
	draft := chat.NewDraft(body)
	if err := draft.Normalize(); err != nil {
		t.Fatal(err)
	}
	event := chat.Event{Session: "s", Seq: 2, At: 30, Type: body.Type(), Payload: draft.Payload, Body: body}
	log := &overtakingLog{
		ends: []chat.End{{Bytes: 3, At: 10}, {Bytes: 7, At: 20}, {Bytes: 13, At: 25}},
		entries: []core.Entry{
			{At: 10, Piece: &chat.Preview{Block: "b", End: 3, Text: "one", Kind: chat.TextBlock, At: 10}},
			{At: 30, Fact: chat.Fact{Seq: 2, JSON: event.AppendJSON(nil)}, Block: "b", Label: chat.Label{Type: event.Type}},
		},
	}
	var got []string
	err := turnlog.Read(t.Context(), log, owner, "s", 0, 0, nil, func(entries []turnlog.Entry, _ bool) (bool, error) {
		for i := range entries {
			got = append(got, describe(&entries[i]))
		}
		return false, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`10 text b 0-3 "one"`, `20 text b 3-7 " two"`, `25 text b 7-13 " three"`, "30 2 agent.text"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
