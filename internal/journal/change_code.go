package journal

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/fields"
	"github.com/parley-hq/parley/internal/json"
)

const (
	// maxChange bounds the encoding of a change.
	maxChange = 64 << 20

	changeVersion = 2   // in version 1 commits have no Previews; a log may still have some
	maxID         = 255 // bytes of a session id
	minFact       = 32  // bytes that an event has at least, so that a wrong count takes no memory
)

// Flags of an encoded commit.
const (
	flagBusy = 1 << iota
	flagRecord
	flagCheckpoint
	flagFiles
	flagsKnown = flagBusy | flagRecord | flagCheckpoint | flagFiles
)

// EncodeChange appends the encoding of a change to b. A reader needs the kind to
// decode it.
func EncodeChange(b []byte, c Change) (kind byte, data []byte, err error) {
	start := len(b)
	data, err = c.append(append(b, changeVersion))
	if err == nil && len(data)-start > maxChange {
		err = chat.Errorf(chat.TooLarge, "a change of the store has at most %d MiB", maxChange>>20)
	}
	if err != nil {
		return 0, b, err
	}
	return c.kind(), data, nil
}

// DecodeChange reads a change. It shares memory with data.
func DecodeChange(kind byte, data []byte) (Change, error) {
	if len(data) > maxChange {
		return nil, notAChange("it is too large")
	}
	r := fields.NewReader(data)
	version := r.Byte()
	if version != 1 && version != changeVersion {
		return nil, notAChange("its version is not known to this program")
	}
	var c Change
	var err error
	switch kind {
	case changeCommit:
		one := new(oneEvent)
		if version > 1 {
			one.change.Previews = r.Number(math.MaxUint64)
		}
		err = readCommit(r, &one.commit, one.facts[:0], one.events[:0])
		one.change.Commit = &one.commit
		c = &one.change
	case changeImportPart, changeImportEnd:
		commit := new(core.Commit)
		if err = readCommit(r, commit, nil, nil); err == nil && (kind == changeImportEnd) != (commit.Record != nil) {
			err = notAChange("only the last part of an import has a record")
		}
		c = &ImportChange{commit, ImportStep(kind - changeImportPart)}
	case changeImportDrop:
		c = &ImportChange{&core.Commit{Session: readSession(r), Number: readNumber(r)}, ImportDrop}
	case changeAlias:
		a := &AliasChange{Session: readSession(r), Replace: readFlag(r)}
		copy(a.Alias[:], r.Take(len(a.Alias)))
		c = a
	case changeFiles:
		f := &FilesChange{Session: readSession(r), IfAbsent: readFlag(r)}
		f.Files, err = readFileInfos(r)
		c = f
	case changeErase:
		c, err = readErasure(r)
	default:
		return nil, notAChange("its kind is not known to this program")
	}
	if err == nil && !r.Done() {
		err = notAChange("it is cut off or too long")
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func notAChange(why string) *chat.Error {
	return chat.Errorf(chat.Invalid, "not a change of the store: %s", why)
}

func (c *CommitChange) append(b []byte) ([]byte, error) {
	return appendCommit(fields.AppendNumber(b, c.Previews), c.Commit)
}

func (c *ImportChange) append(b []byte) ([]byte, error) {
	if c.Step != ImportDrop {
		return appendCommit(b, c.Commit)
	}
	return fields.AppendNumber(fields.AppendBytes(b, c.Session), uint64(c.Number)), nil
}

func (c *AliasChange) append(b []byte) ([]byte, error) {
	b = appendFlag(fields.AppendBytes(b, c.Session), c.Replace)
	return append(b, c.Alias[:]...), nil
}

func (c *FilesChange) append(b []byte) ([]byte, error) {
	return appendFileInfos(appendFlag(fields.AppendBytes(b, c.Session), c.IfAbsent), c.Files)
}

func (c *EraseChange) append(b []byte) ([]byte, error) {
	note, err := json.Marshal(&c.Erasure)
	return fields.AppendBytes(b, note), err
}

// readErasure reads an intention. It is stored as it was sent, so that other bytes
// than those that json.Marshal writes are refused.
func readErasure(r *fields.Reader) (Change, error) {
	note := r.Bytes(maxChange)
	c := &EraseChange{}
	if err := json.Unmarshal(note, &c.Erasure); err != nil {
		return nil, notAChange("the erasure is unreadable")
	}
	same, err := json.Marshal(&c.Erasure)
	if err != nil || !bytes.Equal(same, note) || c.Receipt.Session.Validate() != nil {
		return nil, notAChange("the erasure is unreadable")
	}
	return c, nil
}

// appendCommit leaves out what follows from the facts: sequences, the actors and
// client ids of the keys, and the head.
func appendCommit(b []byte, c *core.Commit) ([]byte, error) {
	b = fields.AppendBytes(b, c.Session)
	b = fields.AppendNumber(b, uint64(c.Number))
	b = fields.AppendNumber(b, uint64(c.After))
	var flags byte
	if c.Busy {
		flags |= flagBusy
	}
	if c.Record != nil {
		flags |= flagRecord
	}
	if c.Checkpoint != nil {
		flags |= flagCheckpoint
	}
	if len(c.Files) > 0 {
		flags |= flagFiles
	}
	b = append(b, flags)
	b = fields.AppendNumber(b, uint64(len(c.Facts)))
	for i := range c.Facts {
		b = fields.AppendBytes(b, c.Facts[i].JSON)
	}
	b = fields.AppendNumber(b, uint64(len(c.Keys)))
	for i := range c.Keys {
		k := &c.Keys[i]
		at, ok := indexIn(c, k.Seq)
		if !ok || k.ClientID != c.Events[at].ClientID || k.Actor != c.Events[at].Actor.Key() {
			return b, notAChange("a key is not that of its event")
		}
		b = fields.AppendNumber(b, uint64(at))
		b = binary.BigEndian.AppendUint64(b, k.Digest)
	}
	b = fields.AppendNumber(b, uint64(len(c.Ends)))
	for i := range c.Ends {
		at, ok := indexIn(c, c.Ends[i].Seq)
		if !ok {
			return b, notAChange("the ends of a block are not of one of its events")
		}
		b = fields.AppendNumber(b, uint64(at))
		b = fields.AppendBytes(b, appendEnds(nil, c.Ends[i].Ends))
	}
	if c.Record != nil {
		b = fields.AppendBytes(b, c.RecordJSON)
	}
	if c.Checkpoint != nil {
		b = fields.AppendBytes(b, c.Checkpoint)
	}
	if len(c.Files) > 0 {
		return appendFileInfos(b, c.Files)
	}
	return b, nil
}

// indexIn returns the index of the event with a sequence.
func indexIn(c *core.Commit, seq chat.Seq) (int, bool) {
	at := seq - c.After - 1
	return int(at), seq > c.After && at < chat.Seq(len(c.Events))
}

// oneEvent is the memory of a commit, most of which have one event.
type oneEvent struct {
	change CommitChange
	commit core.Commit
	facts  [1]chat.Fact
	events [1]chat.Event
}

// readBody reports whether the index of events needs the body of a type of events: those of prompts and of blocks.
func readBody(typ string) bool { return bodies[typ] }

var bodies = func() map[string]bool {
	all := map[string]bool{}
	for _, b := range []chat.Body{
		chat.AgentInputRequest{}, chat.AgentApprovalRequest{}, chat.AgentPermissionRequest{}, // mayAsk
		chat.UserInputResponse{}, chat.UserApprovalResponse{}, chat.UserPermissionResponse{}, chat.PromptClosed{}, // chat.AnswerOf
		chat.AgentText{}, chat.AgentThinking{}, // chat.FinishedBlock
		chat.TurnCompleted{}, // previews.committed
	} {
		all[b.Type()] = true
	}
	return all
}()

// readCommit reads a commit and checks that its events follow one another. It uses the memory of facts and events if that is
// large enough. Events are outlines unless their body is needed.
func readCommit(r *fields.Reader, c *core.Commit, facts []chat.Fact, events []chat.Event) error {
	c.Session, c.Number, c.After = readSession(r), readNumber(r), chat.Seq(r.Number(uint64(chat.MaxSeq)))
	flags := r.Byte()
	n := r.Count()
	if !r.OK() || n == 0 || n > r.Left()/minFact || flags&^flagsKnown != 0 {
		return notAChange("it has no events, or too many")
	}
	c.Busy = flags&flagBusy != 0
	c.Events, c.Facts = slices.Grow(events, n)[:n], slices.Grow(facts, n)[:n]
	for i := range c.Facts {
		f := chat.Fact{Seq: c.After + chat.Seq(i) + 1, JSON: r.Bytes(maxChange)}
		e, err := f.Outline(c.Session, readBody)
		switch {
		case !r.OK():
			return notAChange("an event is cut off")
		case err != nil:
			return notAChange("an event is unreadable").Because(err)
		case e.Seq != f.Seq || e.Session != c.Session:
			return notAChange("an event is of another session, or has another sequence")
		case i > 0 && e.Prev != c.Head:
			return notAChange("an event does not follow the one before it")
		}
		c.Events[i], c.Facts[i], c.Head = e, f, f.Hash()
	}
	readKeys(r, c)
	readBlockEnds(r, c)
	if flags&flagRecord != 0 {
		c.RecordJSON = r.Bytes(maxChange)
		c.Record = new(chat.Session)
		if json.Unmarshal(c.RecordJSON, c.Record) != nil || c.Record.ID != c.Session {
			return notAChange("the record is unreadable")
		}
	}
	if flags&flagCheckpoint != 0 {
		if c.Checkpoint = r.Bytes(maxChange); len(c.Checkpoint) == 0 {
			r.Fail()
		}
	}
	if flags&flagFiles != 0 {
		var err error
		if c.Files, err = readFileInfos(r); err != nil {
			return err
		}
	}
	return nil
}

func appendFileInfos(b []byte, files []chat.FileInfo) ([]byte, error) {
	list, err := json.Marshal(files)
	return fields.AppendBytes(b, list), err
}

func readFileInfos(r *fields.Reader) (files []chat.FileInfo, err error) {
	if err := json.Unmarshal(r.Bytes(maxChange), &files); err != nil || len(files) == 0 {
		return nil, notAChange("the files are unreadable")
	}
	return files, nil
}

func readKeys(r *fields.Reader, c *core.Commit) {
	n := r.Count()
	if n > len(c.Events) {
		r.Fail()
		return
	}
	for i := range n {
		at := int(r.Number(uint64(len(c.Events) - 1)))
		k := core.Key{Digest: r.Uint64(), Seq: c.Events[at].Seq, Actor: c.Events[at].Actor.Key(), ClientID: c.Events[at].ClientID}
		if !r.OK() || i > 0 && k.Seq <= c.Keys[i-1].Seq {
			r.Fail()
			return
		}
		c.Keys = append(c.Keys, k)
	}
}

func readBlockEnds(r *fields.Reader, c *core.Commit) {
	n := r.Count()
	if n > len(c.Events) {
		r.Fail()
		return
	}
	for i := range n {
		seq := c.Events[int(r.Number(uint64(len(c.Events)-1)))].Seq
		text := r.Bytes(maxChange)
		ends, ok := decodeEnds(text)
		if !r.OK() || !ok || !bytes.Equal(appendEnds(nil, ends), text) || i > 0 && seq <= c.Ends[i-1].Seq {
			r.Fail()
			return
		}
		c.Ends = append(c.Ends, core.BlockEnds{Seq: seq, Ends: ends})
	}
}

func readSession(r *fields.Reader) chat.SessionID {
	id := chat.SessionID(r.Bytes(maxID))
	if id.Validate() != nil {
		r.Fail()
	}
	return id
}

func readNumber(r *fields.Reader) chat.Number {
	n := chat.Number(r.Number(1<<core.NumberBits - 1))
	if n == 0 {
		r.Fail()
	}
	return n
}

func appendFlag(b []byte, set bool) []byte {
	if set {
		return append(b, 1)
	}
	return append(b, 0)
}

func readFlag(r *fields.Reader) bool { return r.Number(1) == 1 }
