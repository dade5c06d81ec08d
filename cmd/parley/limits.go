package main

import (
	"cmp"
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/journal"
	"github.com/parley-hq/parley/internal/session"
)

// newRefusals counts refusals by limits other than those of HTTP requests, which the server counts.
func newRefusals() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_refused_total",
		Help: "Messages and writes refused or held back by a limit, by the limit.",
	}, []string{"limit"})
}

// allow applies the rate limit to requests that do not arrive as HTTP requests.
func (p *parley) allow(c chat.Caller, requests int) error {
	err := p.auth.AllowN(c, requests)
	if err != nil {
		p.refused.WithLabelValues("rate").Inc()
	}
	return err
}

// quotas are the limits of owners and workspaces.
func (c *ServeCmd) quotas() session.Quotas {
	return session.Quotas{Sessions: c.MaxSessions, OpenSession: c.MaxOpen, OpenOwner: c.MaxOpenOwn, OpenWorkspace: c.MaxOpenWork, Shares: c.DiskShares,
		StoredOwner: c.MaxStoredOwn, StoredWorkspace: c.MaxStoredWork}
}

// setStored sets the limits of stored bytes that the command line does not set: half of the disk for a workspace, a
// quarter for an owner. There is no limit when the size of the disk cannot be read.
func (c *ServeCmd) setStored() {
	size, err := journal.DiskSize(c.Data)
	if err != nil {
		return
	}
	c.MaxStoredWork = cmp.Or(c.MaxStoredWork, int64(size/2))
	c.MaxStoredOwn = cmp.Or(c.MaxStoredOwn, int64(size/4))
}

// countFiles adds a difference to the stored bytes of a session's files. The nodes of a cluster count what their log names.
func (p *parley) countFiles(id chat.SessionID, bytes int64) {
	if err := p.journal.AddFiles(context.Background(), id, bytes); err != nil {
		p.log.Warn("the bytes of a file could not be counted", "session", id, "bytes", bytes, "err", err)
	}
}

// roomForFiles checks whether so many bytes of files can be stored. Files can be large, so they are refused earlier than
// events: below twice the reserve of the disk.
func (p *parley) roomForFiles(bytes int64) error {
	if err := p.journal.Room(bytes); err != nil {
		return err
	}
	if reserve, scarce := p.journal.Scarce(); scarce {
		p.refused.WithLabelValues(session.QuotaDisk).Inc()
		return chat.Errorf(chat.Unavailable, "the disk of the server has less than %d MiB free, twice what it keeps in reserve: no files are accepted until there is more", reserve>>19)
	}
	return nil
}
