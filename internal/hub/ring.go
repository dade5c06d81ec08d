package hub

// ring holds consecutive entries under rising indexes and drops the oldest. Entries
// are never overwritten in place: readers get slices of ents.
type ring struct {
	first uint64 // index of ents[0]
	ents  []Entry
	bytes int
	room  int // capacity of ents when the ring was empty
}

func (r *ring) end() uint64 { return r.first + uint64(len(r.ents)) }

func (r *ring) at(i uint64) *Entry { return &r.ents[i-r.first] }

// slice returns the entries from i up to, not including, j.
func (r *ring) slice(i, j uint64) []Entry {
	return r.ents[i-r.first : j-r.first : j-r.first]
}

func (r *ring) push(e Entry) {
	if r.ents == nil {
		r.ents = make([]Entry, 0, r.room)
	}
	r.ents = append(r.ents, e)
	r.bytes += cost(&e)
}

// prepend puts older entries before the others; the last of them is first-1.
func (r *ring) prepend(older []Entry) {
	for i := range older {
		r.bytes += cost(&older[i])
	}
	r.first -= uint64(len(older))
	r.ents = append(older, r.ents...)
}

// trim drops the oldest entries until the bounds hold, but keeps one.
func (r *ring) trim(entries, bytes int) {
	n := 0
	for len(r.ents)-n > 1 && (len(r.ents)-n > entries || r.bytes > bytes) {
		r.bytes -= cost(&r.ents[n])
		n++
	}
	r.first += uint64(n)
	r.ents = r.ents[n:]
}

// forget drops the entries before i.
func (r *ring) forget(i uint64) {
	for len(r.ents) > 0 && r.first < i {
		r.bytes -= cost(&r.ents[0])
		r.ents = r.ents[1:]
		r.first++
	}
	if len(r.ents) == 0 {
		r.ents = nil // releases the memory of the array
	}
}

// restart empties the ring; the next entry gets the index first.
func (r *ring) restart(first uint64) { *r = ring{first: first, room: r.room} }
