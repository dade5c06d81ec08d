package x1

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
)

// archiveState is stored with the watermark, so that a start notices missing messages:
// NATS drops messages that it cannot read without an error.
type archiveState struct {
	Created  time.Time `json:"created"`
	First    uint64    `json:"first"`
	FirstAt  time.Time `json:"first_at"`
	Last     uint64    `json:"last"`
	Messages uint64    `json:"messages"`
}

// stateOf reads the state of the stream.
func stateOf(ctx context.Context, stream jetstream.Stream) (*archiveState, error) {
	ctx, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	info, err := stream.Info(ctx)
	if err != nil {
		return nil, err
	}
	s := info.State
	return &archiveState{info.Created, s.FirstSeq, s.FirstTime, s.LastSeq, s.Msgs}, nil
}

// missing says what the archive lost since the earlier state was written, or "". After
// a kill the newest messages may be missing; recover publishes them again.
func (s *archiveState) missing(was *archiveState, clean bool, expired func(time.Time) bool) string {
	switch {
	case was == nil:
		return ""
	case !s.Created.Equal(was.Created):
		return "it was lost and created again"
	case s.Last < was.Last && clean:
		return fmt.Sprintf("it ends with message %d instead of %d", s.Last, was.Last)
	case s.First > was.First && was.Messages > 0 && !expired(was.FirstAt):
		return fmt.Sprintf("it begins with message %d instead of %d", s.First, was.First)
	}
	gone := s.First - was.First // at the beginning, because of their age
	if s.Last < was.Last {
		gone += was.Last - s.Last
	}
	if s.Messages+gone < was.Messages {
		return fmt.Sprintf("it has %d messages, at least %d were expected", s.Messages, was.Messages-gone)
	}
	return ""
}

// inspect compares the archive with the state in the watermark, before anything is
// published. When messages are missing the archive is filled again from the log.
func (p *projector) inspect(ctx context.Context, stream jetstream.Stream) {
	now, err := stateOf(ctx, stream)
	if err != nil {
		p.d.log.WarnContext(ctx, "the x1 archive could not be inspected", "err", err)
		return
	}
	what := p.mark.damage
	if what == "" && p.mark.absent && now.Last > 0 {
		what = p.mark.file + " is missing, which says up to when the archive is complete"
	}
	if what == "" && !p.d.opt.External {
		expired := func(at time.Time) bool { return p.d.opt.Now().Sub(at) > p.d.opt.Keep-slack }
		what = now.missing(p.mark.archive, p.mark.clean, expired)
	}
	if what == "" {
		return
	}
	p.d.log.WarnContext(ctx, "the x1 archive is damaged and is filled again from the log; sessions are not affected", "what", what, "stream", ArchiveStream, "folder", p.d.opt.Dir)
	if err := p.rebuild(ctx, stream); err != nil {
		p.d.log.ErrorContext(ctx, "the x1 archive could not be filled again; the next start tries it again", "err", err)
	}
}

// rebuild empties the archive and sets the watermark so that recover fills it again.
func (p *projector) rebuild(ctx context.Context, stream jetstream.Stream) error {
	for s, err := range p.d.opt.Sessions.All(ctx) {
		if err != nil {
			return err
		}
		p.mark.mu.Lock()
		p.mark.add(s.Workspace)
		p.mark.mu.Unlock()
	}
	if err := stream.Purge(ctx); err != nil {
		return err
	}
	p.mark.mu.Lock()
	defer p.mark.mu.Unlock()
	p.mark.from, p.mark.clean = chat.AtOf(p.d.opt.Now().Add(-p.d.opt.Keep)), false
	return p.mark.write(marked{At: p.mark.from, Workspaces: p.mark.known})
}

// setArchive tells VerifyArchive which stream to read.
func (p *projector) setArchive(stream jetstream.Stream) {
	p.mu.Lock()
	p.archive = stream
	p.mu.Unlock()
}

// VerifyArchive reads the whole archive and says what cannot be read, or "". NATS
// notices a damaged message only when it is read.
func (d *Dialect) VerifyArchive(ctx context.Context) (string, error) {
	d.project.mu.Lock()
	stream := d.project.archive
	d.project.mu.Unlock()
	if stream == nil {
		return "", nil // NATS is not connected
	}
	before, err := stateOf(ctx, stream)
	if err != nil || before.Messages == 0 {
		return "", err
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return "", err
	}
	read, last := uint64(0), uint64(0)
	for last < before.Last {
		batch, err := consumer.FetchNoWait(500)
		if err != nil {
			return "", err
		}
		any := false
		for m := range batch.Messages() {
			any = true
			meta, err := m.Metadata()
			if err != nil {
				return "", err
			}
			if last = meta.Sequence.Stream; last <= before.Last {
				read++
			}
		}
		if err := batch.Error(); err != nil {
			return "", err
		}
		if !any {
			break
		}
	}
	now, err := stateOf(ctx, stream)
	if err != nil {
		return "", err
	}
	// Meanwhile messages may have expired or been erased.
	gone := now.First - before.First
	if now.Messages < before.Messages {
		gone = max(gone, before.Messages-now.Messages)
	}
	if read+gone >= before.Messages {
		return "", nil
	}
	return fmt.Sprintf("the x1 archive (stream %s) has %d messages, and %d can be read: stop the server and remove the folder nats, then it is filled again from the log; sessions are not affected", ArchiveStream, before.Messages, read), nil
}
