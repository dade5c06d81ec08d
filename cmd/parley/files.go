package main

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/session"
	"github.com/parley-hq/parley/internal/sleep"
)

// openFiles opens the folder of files.
func (p *parley) openFiles() (err error) {
	opt := artifact.Options{Max: p.cfg.MaxArtifact, Room: p.roomForFiles}
	if !p.cfg.clustered() {
		opt.Changed = p.countFiles
	}
	p.local, err = artifact.Open(artifactDir(p.cfg.Data), opt)
	p.artifacts = p.local
	return err
}

// sweepFiles removes the files of sessions that the store does not have, after it was copied from another node: they may have
// been erased while this node was away.
func (p *parley) sweepFiles() error {
	state, _, err := p.member.folder.Membership()
	if err != nil || !state.Copied {
		return err
	}
	left, err := p.local.Sessions()
	if err != nil {
		return err
	}
	for id, err := range p.journal.IDs(context.Background()) {
		if err != nil {
			return err
		}
		delete(left, artifact.SessionHash(id))
	}
	for hash := range left {
		if err := p.local.DeleteFolder(hash); err != nil {
			return err
		}
	}
	state.Copied = false
	return p.member.folder.SetMembership(state)
}

// fetchFiles copies the files of the cluster to a new disk, so that each of them is on two disks again.
func (p *parley) fetchFiles(ctx context.Context) error {
	state, _, err := p.member.folder.Membership()
	if err != nil || !state.NewDisk {
		return err
	}
	for p.nodesReady() != nil {
		if sleep.For(ctx, time.Second) != nil {
			return nil
		}
	}
	for {
		count, err := p.node.Files().FetchAll(ctx)
		if err == nil {
			p.log.Info("this node has the files of the cluster", "files", count)
			state.NewDisk = false
			return p.member.folder.SetMembership(state)
		}
		p.log.Warn("not all files of the cluster could be copied to this node; trying again in a minute", "err", err)
		if sleep.For(ctx, time.Minute) != nil {
			return nil
		}
	}
}

// store stores a file of an agent; commit appends its event.
func (p *parley) store(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, commit func(size int64) error) error {
	sess, err := p.sessions.Get(ctx, chat.Trusted, id)
	if err != nil {
		return err
	}
	_, err = p.artifacts.Put(ctx, id, path, mediaType, body, artifact.PutOptions{
		After: sess.Last, Commit: func(info chat.FileInfo) error {
			if p.node != nil {
				return p.node.Files().Named(ctx, id, info, func() error { return commit(info.Size) })
			}
			return commit(info.Size)
		},
	})
	return err
}

// files is the artifact store for the dialects.
type files struct{ artifact.Store }

// Put stores a file of at most limit bytes.
func (f files) Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, limit int64) (chat.FileInfo, error) {
	return f.Store.Put(ctx, id, path, mediaType, body, artifact.PutOptions{Max: limit})
}

// agentFiles is the artifact store for agents. Each change is an event of the session.
type agentFiles struct {
	files
	sessions *session.Sessions
}

// Put stores a file of at most limit bytes.
func (f agentFiles) Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, limit int64) (chat.FileInfo, error) {
	c, err := f.agent(ctx, id)
	if err != nil {
		return chat.FileInfo{}, err
	}
	return f.sessions.PutFile(ctx, c, id, core.FilePut{Path: path, MediaType: mediaType, Body: body, Max: limit})
}

// Delete removes a file.
func (f agentFiles) Delete(ctx context.Context, id chat.SessionID, path string) error {
	c, err := f.agent(ctx, id)
	if err != nil {
		return err
	}
	return f.sessions.RemoveFile(ctx, c, id, path, "")
}

// agent returns the caller for the agent of a session.
func (f agentFiles) agent(ctx context.Context, id chat.SessionID) (chat.Caller, error) {
	sess, err := f.sessions.Get(ctx, chat.Trusted, id)
	return chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: cmp.Or(sess.Agent, f.sessions.DefaultAgent())}, Scopes: []chat.Scope{chat.ScopeAgent, chat.ScopeAdmin}, Workspace: sess.Workspace}, err
}

// readFile reads a file of a session for an agent.
func (p *parley) readFile(ctx context.Context, id chat.SessionID, path string) ([]byte, string, error) {
	body, info, err := p.artifacts.Get(ctx, id, path)
	if err != nil {
		return nil, "", err
	}
	defer body.Close()
	const limit = 16 << 20
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err == nil && len(data) > limit {
		err = chat.Errorf(chat.TooLarge, "the file is too large for a model")
	}
	return data, info.MediaType, err
}
