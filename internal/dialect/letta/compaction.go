package letta

import (
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// compaction is what a stream shows of a summary that was made during its run, to
// clients that asked for it: an event that says why the conversation was compacted, and the
// summary. Lists have the summary only.
func compaction(m *llm.Message) []item {
	summary := expand(m, form{summaries: true})
	event := item{kind: kindEvent, id: strings.TrimPrefix(m.ID, llm.IDPrefix), date: m.CreatedAt, stats: summary[0].stats}
	return append([]item{event}, summary...)
}

// appendCompactionEvent writes what an event message says of a compaction.
func (it *item) appendCompactionEvent(b []byte) []byte {
	stats := it.stats
	if stats == nil {
		stats = &llm.Compaction{}
	}
	b = append(b, `,"event_type":"compaction","event_data":{"trigger":`...)
	b = appendNullable(b, stats.Trigger)
	b = appendCount(append(b, `,"context_token_estimate":`...), stats.TokensBefore)
	b = appendCount(append(b, `,"context_window":`...), stats.ContextWindow)
	return append(b, '}')
}

// appendStats writes what is known of the compaction that made a summary.
func (it *item) appendStats(b []byte) []byte {
	s := it.stats
	if s == nil {
		return append(b, "null"...)
	}
	b = chat.AppendString(append(b, `{"trigger":`...), s.Trigger)
	b = appendCount(append(b, `,"context_tokens_before":`...), s.TokensBefore)
	b = appendCount(append(b, `,"context_tokens_after":`...), s.TokensAfter)
	b = appendInt(append(b, `,"context_window":`...), s.ContextWindow)
	b = appendInt(append(b, `,"messages_count_before":`...), s.MessagesBefore)
	b = appendInt(append(b, `,"messages_count_after":`...), s.MessagesAfter)
	return append(b, '}')
}
