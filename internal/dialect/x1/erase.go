package x1

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// eraseArchived overwrites the events of an erased session in the archive.
func (o *publisher) eraseArchived(ctx context.Context, l *projection) error {
	if err := o.p.acks.barrier(ctx); err != nil {
		return err
	}
	// A kill in the middle must not look like damage at the next start.
	if err := o.p.mark.forgetArchiveState(); err != nil {
		return err
	}
	if err := o.eraseSubject(ctx, Subject(l.id, Archive)); err != nil {
		return err
	}
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	if l.behind {
		o.p.caughtUpWith(l)
	}
	if o.p.projections[l.id] == l {
		delete(o.p.projections, l.id)
		o.p.erasing--
		close(l.eraseDone)
	}
	return nil
}

// eraseSubject overwrites all messages of a subject. A purge would only mark them as
// deleted and leave their bytes in the files of NATS.
//
// "Not found" does not end it: NATS also answers so when its index of a block is out of
// date. It ends when the stream counts no messages of the subject. If messages are
// counted that cannot be found by subject, the stream is read by sequence.
func (o *publisher) eraseSubject(ctx context.Context, subject string) error {
	for _, next := range []func(context.Context, string, uint64) (uint64, error){o.nextBySubject, o.nextBySubject, o.nextBySequence} {
		if err := o.overwrite(ctx, subject, next); err != nil {
			return err
		}
		left, err := o.count(ctx, subject)
		if err != nil {
			return err
		}
		if left == 0 {
			return nil
		}
	}
	return fmt.Errorf("NATS still counts messages of %s in the archive after all that could be found were deleted", subject)
}

// overwrite deletes the messages that next finds, from the beginning of the stream.
func (o *publisher) overwrite(ctx context.Context, subject string, next func(ctx context.Context, subject string, from uint64) (uint64, error)) error {
	for from := uint64(1); ; {
		seq, err := next(ctx, subject, from)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, ackWait)
		err = o.stream.SecureDeleteMsg(wait, seq)
		cancel()
		// One that expired meanwhile cannot be deleted; eraseSubject counts afterwards.
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
			return err
		}
		from = seq + 1
	}
}

// nextBySubject finds the first message of a subject at or behind a sequence.
func (o *publisher) nextBySubject(ctx context.Context, subject string, from uint64) (uint64, error) {
	wait, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	m, err := o.stream.GetMsg(wait, from, jetstream.WithGetMsgSubject(subject))
	if err != nil {
		return 0, err
	}
	return m.Sequence, nil
}

// nextBySequence finds the same by reading message after message.
func (o *publisher) nextBySequence(ctx context.Context, subject string, from uint64) (uint64, error) {
	wait, cancel := context.WithTimeout(ctx, ackWait)
	info, err := o.stream.Info(wait)
	cancel()
	if err != nil {
		return 0, err
	}
	for seq := max(from, info.State.FirstSeq); seq <= info.State.LastSeq; seq++ {
		wait, cancel := context.WithTimeout(ctx, ackWait)
		m, err := o.stream.GetMsg(wait, seq)
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

// count returns how many messages the stream has of a subject.
func (o *publisher) count(ctx context.Context, subject string) (uint64, error) {
	wait, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	info, err := o.stream.Info(wait, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, err
	}
	return info.State.Subjects[subject], nil
}
