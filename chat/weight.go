package chat

// MaxBlockJSON bounds what the text of a block takes inside JSON, so that the
// event that finishes it always fits MaxEvent.
const MaxBlockJSON = MaxEvent - 8<<10
