package node

import (
	"context"
	"errors"
	"iter"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/cluster"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/session"
)

// Journal is the journal of a node. Changes return when this node has applied them; a majority of the nodes has them on disk
// then.
type Journal struct {
	*journal.Journal
	node *Node
}

// Commit stores a commit that this node has decided. An error with the reason OwnerChanged means that it is not stored, and
// that another node decides about the session now.
func (j *Journal) Commit(_ context.Context, c *core.Commit) error {
	p := j.node.partOf(c.Session)
	return j.decided(c.Session, &journal.CommitChange{Commit: c, Previews: p.order.lastSent(p.status().Copy.Epoch)})
}

// decided stores a change that the rules of this node have decided. It is not sent to another owner, whose rules would not know
// of it.
func (j *Journal) decided(id chat.SessionID, c journal.Change) error {
	if err := j.Writable(); err != nil {
		return err
	}
	kind, data, err := journal.EncodeChange(nil, c)
	if err != nil {
		return err
	}
	return j.node.commit(j.node.partOf(id), cluster.Record{Kind: kind, Data: data, Decoded: c})
}

// commit appends a record to the log of a partition that this node owns.
func (n *Node) commit(p *part, r cluster.Record) error {
	replica := p.get()
	if replica == nil {
		return errNotConnected
	}
	_, err := replica.Commit(r)
	switch {
	case errors.Is(err, cluster.ErrLost), errors.Is(err, cluster.ErrNotOwner):
		return session.ErrOwnerChanged
	case errors.Is(err, cluster.ErrStopped):
		return errUnknown
	case errors.Is(err, cluster.ErrTooLarge):
		return chat.Errorf(chat.TooLarge, "this is more than the log of the cluster takes at once; write it in several parts")
	}
	return err
}

var (
	errNotConnected = chat.Errorf(chat.Unavailable, "this node is not connected to the other nodes yet; try again in a moment")
	errUnknown      = chat.Errorf(chat.Unavailable, "the node that was asked ended meanwhile, and it is not known whether it has stored this; repeat the request with the same client_id").WithReason(chat.OutcomeUnknown)
)

// SetAlias makes a foreign id refer to a session unless it refers to one already. It returns the session that the id refers to
// afterwards.
func (j *Journal) SetAlias(ctx context.Context, workspace, actorKey, foreign string, id chat.SessionID) (chat.SessionID, error) {
	if first, ok, err := j.Alias(ctx, workspace, actorKey, foreign); ok || err != nil {
		return first, err
	}
	err := j.setAlias(ctx, journal.AliasIDOf(workspace, actorKey, foreign), id, false)
	if err == nil {
		return id, nil
	}
	if chat.CodeOf(err) == chat.Conflict {
		if first, ok, err := j.Alias(ctx, workspace, actorKey, foreign); ok || err != nil {
			return first, err
		}
	}
	return "", err
}

// ReplaceAlias makes a foreign id refer to a session and replaces an alias that exists.
func (j *Journal) ReplaceAlias(ctx context.Context, workspace, actorKey, foreign string, id chat.SessionID) error {
	return j.setAlias(ctx, journal.AliasIDOf(workspace, actorKey, foreign), id, true)
}

// setAlias stores an alias in the partition of its hash.
func (j *Journal) setAlias(ctx context.Context, alias journal.AliasID, id chat.SessionID, replace bool) error {
	if err := id.Validate(); err != nil {
		return err
	}
	return j.node.submit(ctx, j.node.partOfAlias(alias), &journal.AliasChange{Alias: alias, Session: id, Replace: replace}, replace)
}

// BeginErase makes a session unreadable on all nodes and stores the intention to erase it. Errors are those of Commit.
func (j *Journal) BeginErase(ctx context.Context, id chat.SessionID, files int, bytes int64) (core.Erasure, error) {
	e, err := j.PlanErase(ctx, id, files, bytes)
	if err == nil {
		err = j.decided(id, &journal.EraseChange{Erasure: e})
	}
	return e, err
}

// SetFiles does nothing: all nodes count the files that the log names.
func (j *Journal) SetFiles(context.Context, chat.SessionID, int64) error { return nil }

// Import stores a whole log under a free id.
func (j *Journal) Import(ctx context.Context, id chat.SessionID, facts iter.Seq2[chat.Fact, error]) error {
	if err := id.Validate(); err != nil {
		return err
	}
	return j.SplitImport(ctx, id, facts, func(c *journal.ImportChange) error {
		if c.Step == journal.ImportEnd && j.node.files != nil {
			c.Files = j.node.files.forked(id)
		}
		return j.node.submit(context.WithoutCancel(ctx), j.node.partOf(id), c, c.Step == journal.ImportDrop)
	})
}

// submit appends a change that needs no rules to the log of its partition: here, or at the node that owns it. repeat says that
// the change has the same effect when it is stored twice.
func (n *Node) submit(ctx context.Context, p *part, c journal.Change, repeat bool) error {
	if err := n.opt.Journal.Writable(); err != nil {
		return err
	}
	kind, data, err := journal.EncodeChange(nil, c)
	if err != nil {
		return err
	}
	if p.status().Owns {
		if err := n.commit(p, cluster.Record{Kind: kind, Data: data}); chat.ReasonOf(err) != chat.OwnerChanged {
			return err
		}
	}
	_, err = n.send(ctx, p, message{kind: msgSubmit, body: append([]byte{kind}, data...)}, repeat)()
	return err
}
