package journal

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// Number returns the number of a session that exists, or a free one for a session
// that will be created. It returns Gone for an erased id. A free number is not
// reserved: Commit returns Conflict when another session has taken it.
func (j *Journal) Number(_ context.Context, id chat.SessionID) (n chat.Number, exists bool, err error) {
	if err := id.Validate(); err != nil {
		return 0, false, err
	}
	v, err := j.look(id)
	if err == nil {
		return v.number, true, nil
	}
	if chat.CodeOf(err) != chat.NotFound {
		return 0, false, err
	}
	for try := range 256 {
		n := core.NumberFor(id, try)
		name, err := j.get(numberKey(nil, kName, n))
		if err != nil {
			return 0, false, err
		}
		// The number is free, or this id is being created at the moment.
		if name == nil || string(name) == string(id) {
			return n, false, nil
		}
	}
	return 0, false, chat.Errorf(chat.Internal, "no free number was found for session %s; use another id", id)
}

// SessionOf returns the session with a number, or NotFound or Gone.
func (j *Journal) SessionOf(_ context.Context, n chat.Number) (chat.SessionID, error) {
	name, err := j.get(numberKey(nil, kName, n))
	switch {
	case err != nil:
		return "", err
	case name == nil:
		return "", chat.Errorf(chat.NotFound, "there is no such session")
	case len(name) == 0:
		return "", chat.Errorf(chat.Gone, "the session was erased")
	}
	return chat.SessionID(name), nil
}

// numberOf reads the number of an id from the store.
func (j *Journal) numberOf(id chat.SessionID) (chat.Number, bool, error) {
	v, err := j.get(hashKey(nil, kID, idHash(id)))
	if v == nil || err != nil {
		return 0, false, err
	}
	n, ok := decodeNumber(v)
	if !ok {
		return 0, false, damaged(id, 0, "its number is unreadable")
	}
	return n, true, nil
}
