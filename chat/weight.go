package chat

// MaxBlockJSON bounds what the text of a block takes inside JSON, so that the
// event that finishes it always fits MaxEvent.
const MaxBlockJSON = MaxEvent - 8<<10

// JSONLen is how many bytes a text takes inside a JSON string, without the
// quotes.
func JSONLen(s string) int {
	if isPlain(s) {
		return len(s)
	}
	return len(AppendString(nil, s)) - 2
}
