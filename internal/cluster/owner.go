package cluster

// Partition is what one process knows of a partition: its copy and, while it owns the partition, the records that are not
// applied yet. It does no I/O: its methods return the frame to append to the log. It is not safe for concurrent use.
type Partition struct {
	cluster   string
	partition uint16
	node      string
	process   uint64

	copy    Copy
	sent    *Frame   // appended, perhaps several times, and not read back yet
	inSent  []Ticket // of its records
	waiting []queued // for the next frame
	tickets Ticket
}

// Ticket names a record that was submitted to this process.
type Ticket uint64

type queued struct {
	ticket Ticket
	record Record
}

// Outcome is what follows from a frame of the log.
type Outcome struct {
	Verdict Verdict
	Applied []Ticket // records of this process that count
	Lost    []Ticket // records of this process that do not count, on no node, now and later
	Unknown []Ticket // records that this process cannot judge, because its copy is damaged
}

// newPartition returns the state of a process that starts with a copy. process must be random and not 0.
func newPartition(cluster string, partition uint16, node string, process uint64, have Copy) *Partition {
	return &Partition{cluster: cluster, partition: partition, node: node, process: process, copy: have}
}

// Copy returns what was applied.
func (p *Partition) Copy() Copy { return p.copy }

// Owns reports whether this process owns the partition, as far as it has read the log.
func (p *Partition) Owns() bool {
	return p.copy.Epoch > 0 && p.copy.Claim.Node == p.node && p.copy.Claim.Process == p.process
}

// Claim returns the frame with which this process claims the partition. It has an effect only if it is the first claim of
// its epoch in the log.
func (p *Partition) Claim() *Frame {
	return p.claim(Claim{Node: p.node, Process: p.process})
}

// HandOver returns the frame with which the owner gives the partition to a process of another node. Records that are in flight
// are lost if the log puts them behind it, so the owner first waits until Sent returns nil.
func (p *Partition) HandOver(node string, process uint64) *Frame {
	return p.claim(Claim{Node: node, Process: process, Handover: true})
}

func (p *Partition) claim(c Claim) *Frame {
	return &Frame{Cluster: p.cluster, Partition: p.partition, Epoch: p.copy.Epoch + 1, Claim: c}
}

// Submit queues a record for the next frame, which Next returns. A later Outcome has its ticket. It returns false, and no ticket,
// if this process does not own the partition.
func (p *Partition) Submit(r Record) (t Ticket, ok bool) {
	if !p.Owns() {
		return 0, false
	}
	p.tickets++
	p.waiting = append(p.waiting, queued{p.tickets, r})
	return p.tickets, true
}

// Sent returns the frame in flight, to append it again, or nil.
func (p *Partition) Sent() *Frame { return p.sent }

// Waiting returns how many records wait for the next frame.
func (p *Partition) Waiting() int { return len(p.waiting) }

// Take takes the frame at the next position of the log. If it counts, the caller stores its records together with the copy
// that Copy returns afterwards. Next may return a frame afterwards.
func (p *Partition) Take(pos Pos, f *Frame) Outcome {
	next, verdict := p.copy.Apply(pos, f)
	o := Outcome{Verdict: verdict}
	switch {
	case verdict == Damaged:
		o.Unknown = p.drop()
		return o
	case verdict == Void:
	case f.Number == 0:
		o.Lost = p.drop() // also when the claim is its own: what was sent in the epoch before is void
	case p.Owns():
		o.Applied = p.inSent
		p.sent, p.inSent = nil, nil
	}
	p.copy = next
	return o
}

// Next puts the waiting records that fit into a frame and returns it, to append it to the log. It returns nil if a frame is in
// flight or no record waits.
func (p *Partition) Next() *Frame {
	if p.sent != nil || len(p.waiting) == 0 {
		return nil
	}
	f := &Frame{Cluster: p.cluster, Partition: p.partition, Epoch: p.copy.Epoch, Number: p.copy.Number + 1, Digest: p.copy.Digest}
	size := 0
	for _, q := range p.waiting {
		if size += len(q.record.Data); size > maxFrame && len(f.Records) > 0 {
			break
		}
		f.Records = append(f.Records, q.record)
		p.inSent = append(p.inSent, q.ticket)
	}
	p.sent, p.waiting = f, p.waiting[len(f.Records):]
	return f
}

// drop forgets all records that are not applied and returns their tickets.
func (p *Partition) drop() []Ticket {
	all := p.inSent
	for _, q := range p.waiting {
		all = append(all, q.ticket)
	}
	p.sent, p.inSent, p.waiting = nil, nil, nil
	return all
}
