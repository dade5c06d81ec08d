package agent

import (
	"context"
	"io"

	"github.com/parley-hq/parley/chat"
)

// Transport connects a Turn to its session. It puts the turn, the attempt and the workstream into what it sends, waits
// for a lost connection to return, and sends again what was not acknowledged.
type Transport interface {
	// Ref names the turn in its current attempt.
	Ref() chat.TurnRef

	// Append stores drafts, all or none. A draft whose ClientID is stored already returns the stored event.
	Append(ctx context.Context, drafts []chat.Draft) ([]chat.Event, error)
	// Preview shows the text of an open block; readers have its first shown bytes.
	Preview(ctx context.Context, block chat.Block, shown int) error
	// StoreFile stores a file of the session and calls commit with its size. If commit fails, the file is as before.
	StoreFile(ctx context.Context, path, mediaType string, body io.Reader, commit func(size int64) error) error
	// WithdrawPrompt closes a prompt of the turn.
	WithdrawPrompt(ctx context.Context, requestID string) error

	// Read returns stored events of the session; more reports that the range has further ones.
	Read(ctx context.Context, r chat.Range) (facts []chat.Fact, more bool, err error)
	// State returns the state of the session.
	State(ctx context.Context) (*chat.State, error)

	// TakeMessages takes the user messages that arrived during the turn.
	TakeMessages(ctx context.Context) ([]chat.Event, error)
	// TakeEvents takes all events that arrived during the turn; with workstreams named, only their events.
	TakeEvents(ctx context.Context, workstreams ...string) ([]chat.Event, error)

	// The calls about workstreams, which are named by their id or launch id.
	Launch(ctx context.Context, l chat.Launch) (chat.WorkstreamStatus, error)
	MessageWorkstream(ctx context.Context, name string, m chat.Steering) (chat.WorkstreamStatus, error)
	SteerWorkstream(ctx context.Context, name string, m chat.Steering) (chat.WorkstreamStatus, error)
	TerminateWorkstream(ctx context.Context, name string, m chat.Steering) (chat.WorkstreamStatus, error)
	ReportWorkstream(ctx context.Context, clientID string, p chat.WorkstreamProgress) error
	Workstreams(ctx context.Context) ([]chat.WorkstreamStatus, error)
}
