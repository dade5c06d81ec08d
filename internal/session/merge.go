package session

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/workstream"
)

// The files of a workstream are merged before the rules end it, because rules do no I/O.
// A request that may end workstreams first merges the files of those workstreams and
// passes the lists of files to the rules. Merging may be repeated, so it does no harm
// if a workstream does not end after all.

// mergeDue merges the files of workstreams whose deadline has passed, and of the
// workstreams below them that have no running turn.
func (s *Sessions) mergeDue(ctx context.Context, id chat.SessionID) (map[string][]string, error) {
	now := s.now()
	return s.mergeAll(ctx, id, func(st *chat.State, w *chat.Workstream) bool {
		if ends(w, now) {
			return true
		}
		for line := w.Parent; line != ""; {
			above := st.Workstream(line)
			if above == nil {
				return false
			}
			if ends(above, now) {
				return st.Line(w.ID).Turn == nil
			}
			line = above.Parent
		}
		return false
	})
}

// mergeResting merges the files of the workstreams at or below a line that have no
// running turn, because a stop ends them at once. The main line "" includes all.
func (s *Sessions) mergeResting(ctx context.Context, id chat.SessionID, line string) (map[string][]string, error) {
	return s.mergeAll(ctx, id, resting(line))
}

// resting selects the workstreams at or below a line that have no running turn.
func resting(line string) func(*chat.State, *chat.Workstream) bool {
	return func(st *chat.State, w *chat.Workstream) bool { return st.Line(w.ID).Turn == nil && below(st, w, line) }
}

// below reports whether w is the workstream of a line or one of its descendants.
func below(st *chat.State, w *chat.Workstream, line string) bool {
	if line == "" {
		return true
	}
	for ; w != nil; w = st.Workstream(w.Parent) {
		if w.ID == line || w.LaunchID == line {
			return true
		}
	}
	return false
}

// mergeAll merges the files of the selected workstreams that have not ended. The deepest
// come first, so that their files are merged on with the files of their parents.
func (s *Sessions) mergeAll(ctx context.Context, id chat.SessionID, which func(st *chat.State, w *chat.Workstream) bool) (map[string][]string, error) {
	if s.opt.Artifacts == nil {
		return nil, nil
	}
	var list []*chat.Workstream
	depth := map[string]int{}
	err := s.look(ctx, id, func(st *chat.State) {
		for _, w := range st.Workstreams {
			if !w.Ended() && workstream.Merges(w) && which(st, w) {
				list = append(list, w)
				depth[w.ID] = workstream.Depth(st, w.ID)
			}
		}
	})
	slices.SortStableFunc(list, func(a, b *chat.Workstream) int { return cmp.Compare(depth[b.ID], depth[a.ID]) })
	files := map[string][]string{}
	for _, w := range list {
		files[w.ID] = s.merge(ctx, id, w)
	}
	return files, err
}

// merge adds the files of a workstream to the files of its parent line and returns their
// paths. An error is only logged, so that the workstream can end; the files then stay in
// its own folder.
func (s *Sessions) merge(ctx context.Context, id chat.SessionID, w *chat.Workstream) []string {
	if s.opt.Artifacts == nil || w == nil || !workstream.Merges(w) {
		return nil
	}
	own := chat.WorkFolder(w.ID)
	paths, err := s.opt.Artifacts.Merge(context.WithoutCancel(ctx), id, []string{own + "out/", own + "files/"}, chat.WorkFolder(w.Parent)+"files/"+w.ID+"/")
	if err != nil {
		s.opt.Logger.ErrorContext(ctx, "the files of a workstream could not be merged; they stay in its own folder", "session", id, "workstream", w.ID, "err", err)
	}
	if above := s.endedOrEnding(ctx, id, w.Parent); above != nil {
		s.merge(ctx, id, above)
	}
	const most = 100
	if len(paths) > most {
		paths = append(paths[:most:most], "…")
	}
	for i := range paths {
		paths[i] = strings.TrimPrefix(paths[i], chat.WorkFolder(w.Parent))
	}
	return paths
}

// endedOrEnding returns the workstream of a line if it is ending or has ended, otherwise
// nil. A canceled workstream may end before its children; files that the children merge
// into its folder later must then be merged on to its parent.
func (s *Sessions) endedOrEnding(ctx context.Context, id chat.SessionID, line string) (w *chat.Workstream) {
	if line == "" {
		return nil
	}
	err := s.look(ctx, id, func(st *chat.State) {
		if p := st.Workstream(line); p != nil && p.State != chat.WorkRunning {
			w = p
		}
	})
	if err != nil {
		s.opt.Logger.ErrorContext(ctx, "it is not known whether the files of a workstream are to be merged further", "session", id, "workstream", line, "err", err)
	}
	return w
}
