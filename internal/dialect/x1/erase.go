package x1

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// eraseArchived overwrites the events of an erased session in the archive.
func (p *projector) eraseArchived(ctx context.Context, l *projection, stream jetstream.Stream) error {
	p.publishing.Lock() // a batch that began before the erasure may have an event of it
	// A kill in the middle must not look like damage at the next start.
	err := p.mark.forgetArchiveState()
	if err == nil && p.unconfirmed {
		b := p.newBatch(ctx)
		b.held.Subject, b.held.Data, b.count = l.archive, []byte("{}"), 1
		err = p.confirm(b) // then everything before it is stored, and is erased with it
	}
	p.publishing.Unlock()
	if err != nil {
		return err
	}
	if err := eraseSubject(ctx, stream, Subject(l.id, Archive)); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.behind {
		p.caughtUpWith(l)
	}
	delete(p.projections, l.id)
	p.erasing--
	close(l.eraseDone)
	return nil
}

// eraseSubject overwrites all messages of a subject. A purge would only mark them as
// deleted and leave their bytes in the files of NATS.
//
// "Not found" does not end it: NATS also answers so when its index of a block is out of
// date. It ends when the stream counts no messages of the subject. If messages are
// counted that cannot be found by subject, the stream is read by sequence.
func eraseSubject(ctx context.Context, stream jetstream.Stream, subject string) error {
	for _, next := range []findNext{nextBySubject, nextBySubject, nextBySequence} {
		if err := overwrite(ctx, stream, subject, next); err != nil {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, ackWait)
		info, err := stream.Info(wait, jetstream.WithSubjectFilter(subject))
		cancel()
		if err != nil || info.State.Subjects[subject] == 0 {
			return err
		}
	}
	return fmt.Errorf("NATS still counts messages of %s in the archive after all that could be found were deleted", subject)
}

// findNext finds the first message of a subject at or behind a sequence.
type findNext func(ctx context.Context, stream jetstream.Stream, subject string, from uint64) (uint64, error)

// overwrite deletes the messages that next finds, from the beginning of the stream.
func overwrite(ctx context.Context, stream jetstream.Stream, subject string, next findNext) error {
	for from := uint64(1); ; {
		seq, err := next(ctx, stream, subject, from)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, ackWait)
		err = stream.SecureDeleteMsg(wait, seq)
		cancel()
		// One that expired meanwhile cannot be deleted; eraseSubject counts afterwards.
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
			return err
		}
		from = seq + 1
	}
}

func nextBySubject(ctx context.Context, stream jetstream.Stream, subject string, from uint64) (uint64, error) {
	wait, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	m, err := stream.GetMsg(wait, from, jetstream.WithGetMsgSubject(subject))
	if err != nil {
		return 0, err
	}
	return m.Sequence, nil
}

// nextBySequence reads message after message.
func nextBySequence(ctx context.Context, stream jetstream.Stream, subject string, from uint64) (uint64, error) {
	s, err := stateOf(ctx, stream)
	if err != nil {
		return 0, err
	}
	for seq := max(from, s.First); seq <= s.Last; seq++ {
		wait, cancel := context.WithTimeout(ctx, ackWait)
		m, err := stream.GetMsg(wait, seq)
		cancel()
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case err != nil:
			return 0, err
		case m.Subject == subject:
			return seq, nil
		}
	}
	return 0, jetstream.ErrMsgNotFound
}
