package hub

// packUnit is how much text is packed together at most, unless one entry alone
// is larger.
const packUnit = 16 << 10

// appendEntry encodes one entry.
func appendEntry(enc Encoding, dst []byte, e *Entry) []byte {
	if e.Piece != nil {
		return enc.AppendPiece(dst, e)
	}
	return enc.AppendEvent(dst, e)
}
