package native

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// maxCollected bounds the frames of pieces that are shown together.
const maxCollected = 64

// collected has the pieces of the frames that were read and not shown yet. Frames that
// arrive together are shown together, by the goroutine that reads them: an agent with many
// sessions sends many pieces in a packet. Only the read loop uses it.
type collected struct {
	all []core.SessionPieces
	oks []pieceAnswer
}

// pieceAnswer is the answer to a frame of pieces. Without an id it is not sent.
type pieceAnswer struct {
	id   json.RawMessage
	turn chat.TurnID // for workers; others get the session
}

// takePiece handles a frame with one piece.
func (s *socket) takePiece(ctx context.Context, p pieceFrame, h handler) {
	err := wire.Ended(ctx) // the credential may have ended after the frame was read
	if err == nil {
		err = s.count(ctx, "preview")
	}
	if err == nil {
		err = h.handlePiece(ctx, p)
	}
	if err != nil {
		s.refuse(ctx, p.id, p.session, err)
	}
}

func (s *socket) handlePiece(_ context.Context, p pieceFrame) error {
	of := core.SessionPieces{Session: p.session, Named: p.session != "", Pieces: []chat.Preview{p.piece.preview()}}
	s.preview(of, pieceAnswer{id: p.id})
	return nil
}

// preview collects pieces. They are shown before the next frame of another kind is handled,
// and before the read loop waits.
func (s *socket) preview(of core.SessionPieces, ok pieceAnswer) {
	s.conn.Stay() // an agent sends many
	s.pieces.all = append(s.pieces.all, of)
	s.pieces.oks = append(s.pieces.oks, ok)
}

// showPieces shows what was collected.
func (s *socket) showPieces(ctx context.Context) {
	all, oks := s.pieces.all, s.pieces.oks
	for len(all) > 0 {
		n := s.d.opt.Sessions.PreviewAll(ctx, s.caller, all)
		for i := range n {
			s.answerPreview(ctx, all[i].Session, all[i].Err, oks[i])
		}
		if all, oks = all[n:], oks[n:]; len(all) > 0 {
			// The session is busy: the piece waits for it, and other sessions do not.
			s.previewLater(ctx, all[0], oks[0])
			all, oks = all[1:], oks[1:]
		}
	}
	clear(s.pieces.all)
	clear(s.pieces.oks)
	s.pieces.all, s.pieces.oks = s.pieces.all[:0], s.pieces.oks[:0]
}

// previewLater puts pieces into the order of their session.
func (s *socket) previewLater(ctx context.Context, of core.SessionPieces, ok pieceAnswer) {
	err := s.later(ctx, func() (func(), error) {
		wait, err := s.d.opt.Sessions.PreviewLater(ctx, s.caller, of.Session, of.Pieces)
		return func() { s.answerPreview(ctx, of.Session, wait(), ok) }, err
	})
	if err != nil {
		s.refuse(ctx, ok.id, of.Session, err)
	}
}

func (s *socket) answerPreview(ctx context.Context, session chat.SessionID, err error, ok pieceAnswer) {
	switch {
	case err != nil:
		s.refuse(ctx, ok.id, session, err)
	case len(ok.id) > 0 && ok.turn != "":
		s.send(ctx, serverFrame{Op: "ok", ID: ok.id, TurnID: ok.turn})
	case len(ok.id) > 0:
		s.send(ctx, serverFrame{Op: "ok", ID: ok.id, Session: session})
	}
}
