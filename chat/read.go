package chat

import "iter"

// One page of Facts has at most so many events and about so many bytes.
const (
	pageEvents = 500
	pageBytes  = 4 << 20
)

// Facts reads a range page by page. In it Limit is the most events in all, 0 means
// no bound; MaxBytes bounds one page, 0 means 4 MiB. The sequence ends after the
// first error.
func Facts(r Range, read func(Range) (facts []Fact, more bool, err error)) iter.Seq2[Fact, error] {
	return func(yield func(Fact, error) bool) {
		page, left := r, r.Limit
		if page.MaxBytes == 0 {
			page.MaxBytes = pageBytes
		}
		for {
			if page.Limit = pageEvents; r.Limit > 0 {
				page.Limit = min(pageEvents, left)
			}
			facts, more, err := read(page)
			if err != nil {
				yield(Fact{}, err)
				return
			}
			for _, f := range facts {
				if !yield(f, nil) {
					return
				}
				if left--; page.Desc {
					page.Before = f.Seq
				} else {
					page.After = f.Seq
				}
			}
			if !more || len(facts) == 0 || left == 0 || page.Desc && page.Before == 1 {
				return
			}
		}
	}
}

// Events decodes facts. The sequence ends after the first error.
func Events(facts iter.Seq2[Fact, error]) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for f, err := range facts {
			var e Event
			if err == nil {
				e, err = f.Event()
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
