package cluster_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/parley-hq/parley/internal/cluster"
)

// memory is a Store. Each record must follow all earlier ones of its session.
type memory struct {
	mu    sync.Mutex
	copy  cluster.Copy
	data  []stored
	count [simulatedSessions]uint32
	past  []moment // after each position
}

type stored struct {
	pos     cluster.Pos
	id      uint64
	session byte
}

type moment struct {
	copy cluster.Copy
	data int
}

func (m *memory) Apply(records []cluster.Record, c cluster.Copy) ([]error, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.Pos != m.copy.Pos+1 {
		return nil, fmt.Errorf("position %d follows %d", c.Pos, m.copy.Pos)
	}
	for _, r := range records {
		id, session, after := parseRecord(r)
		if m.count[session] != after {
			return nil, fmt.Errorf("record %d follows %d others of session %d; there are %d", id, after, session, m.count[session])
		}
		m.count[session]++
		m.data = append(m.data, stored{c.Pos, id, session})
	}
	m.copy = c
	m.past = append(m.past, moment{c, len(m.data)})
	return nil, nil
}

// earlier returns the store as it was some positions ago.
func (m *memory) earlier(back int) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	back = min(back, len(m.past))
	out := &memory{past: slices.Clone(m.past[:len(m.past)-back])}
	if n := len(out.past); n > 0 {
		out.copy, out.data = out.past[n-1].copy, slices.Clone(m.data[:out.past[n-1].data])
	}
	for _, s := range out.data {
		out.count[s.session]++
	}
	return out
}

func (m *memory) after(session byte) uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count[session]
}

func record(id uint64, session byte, after uint32) cluster.Record {
	b := binary.BigEndian.AppendUint64(nil, id)
	return cluster.Record{Kind: 1, Data: binary.BigEndian.AppendUint32(append(b, session), after)}
}

func parseRecord(r cluster.Record) (id uint64, session byte, after uint32) {
	return binary.BigEndian.Uint64(r.Data), r.Data[8], binary.BigEndian.Uint32(r.Data[9:])
}
