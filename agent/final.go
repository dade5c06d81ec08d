package agent

// Final says whether the block is the turn's answer, for agents that know it
// only when they have come to its end.
func (w *Writer) Final(final bool) { w.final = final }
