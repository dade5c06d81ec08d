package chat

import "github.com/parley-hq/parley/internal/json"

// readDrafts reads drafts in the form that nearly all senders use. ok is false when
// they have another form or a draft is refused; then parseDrafts has to read them, which
// is slower and also makes the text of the error.
func readDrafts(b []byte) (drafts []Draft, ok bool) {
	f := json.Fields{Rest: b}
	if !f.Skip('[') {
		drafts = make([]Draft, 1)
		return drafts, drafts[0].read(&f) && f.Done()
	}
	drafts = make([]Draft, 0, min(MaxDrafts, max(1, len(b)/256)))
	for len(drafts) < MaxDrafts {
		drafts = append(drafts, Draft{})
		if !drafts[len(drafts)-1].read(&f) {
			return nil, false
		}
		if f.Skip(']') {
			return drafts, f.Done()
		}
		if !f.Skip(',') {
			return nil, false
		}
		f = json.Fields{Rest: f.Rest}
	}
	return nil, false
}

// read reads one draft up to its end and normalizes it.
func (d *Draft) read(f *json.Fields) bool {
	for f.Next() {
		switch string(f.Key) {
		case "type":
			f.Text(&d.Type)
		case "payload":
			if d.Payload != nil {
				f.Stop() // only one of two would be looked at below
			}
			d.Payload = json.RawMessage(f.Value)
		case "client_id":
			f.Text(&d.ClientID)
		case "workstream_id":
			f.Text(&d.Workstream)
		case "parent_id":
			f.Text((*string)(&d.Parent))
		case "turn_id":
			f.Text((*string)(&d.Turn))
		case "attempt":
			f.Int(&d.Attempt)
		default:
			f.Stop() // it may be one of the above in other letters
		}
	}
	if !f.Ended() || d.Normalize() != nil {
		return false
	}
	// Decoding a known kind has shown that the payload is valid.
	_, unknown := d.Body.(Unknown)
	return !unknown || json.Valid(d.Payload)
}
