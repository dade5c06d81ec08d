package x1

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// purge overwrites what the archive has of an erased session.
func (o *outlet) purge(ctx context.Context, l *lane) error {
	if err := o.p.acks.barrier(ctx); err != nil {
		return err
	}
	// A kill in the middle must not look like damage at the next start.
	if err := o.p.mark.disown(); err != nil {
		return err
	}
	if err := o.wipe(ctx, Subject(l.id, Archive)); err != nil {
		return err
	}
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	if l.behind {
		o.p.recovered(l)
	}
	if o.p.lanes[l.id] == l {
		delete(o.p.lanes, l.id)
		o.p.erased--
		close(l.wiped)
	}
	return nil
}

// wipe overwrites all messages of a subject. A purge would only mark them as
// deleted and leave their bytes in the files of NATS.
//
// "Not found" does not end it: NATS also says that when its index of a block is
// out of date. The number of messages that the stream counts for the subject
// decides. If messages are counted that cannot be found by subject, the stream is
// read by sequence.
func (o *outlet) wipe(ctx context.Context, subject string) error {
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
func (o *outlet) overwrite(ctx context.Context, subject string, next func(ctx context.Context, subject string, from uint64) (uint64, error)) error {
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
		// One that expired meanwhile cannot be deleted; wipe counts afterwards.
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
			return err
		}
		from = seq + 1
	}
}

// nextBySubject finds the first message of a subject at or behind a sequence.
func (o *outlet) nextBySubject(ctx context.Context, subject string, from uint64) (uint64, error) {
	wait, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	m, err := o.stream.GetMsg(wait, from, jetstream.WithGetMsgSubject(subject))
	if err != nil {
		return 0, err
	}
	return m.Sequence, nil
}

// nextBySequence finds the same by reading message after message.
func (o *outlet) nextBySequence(ctx context.Context, subject string, from uint64) (uint64, error) {
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
func (o *outlet) count(ctx context.Context, subject string) (uint64, error) {
	wait, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	info, err := o.stream.Info(wait, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, err
	}
	return info.State.Subjects[subject], nil
}
