package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

const workUsage = "Usage: /work N [SECONDS] [deadline=S], with N from 1 to 100, up to 1800 seconds, and a deadline from 30 to 1800."

// job is what a workstream of /work is told beside its task.
type job struct {
	Part    int     `json:"part"`
	Of      int     `json:"of"`
	Seconds float64 `json:"seconds"`
}

// work launches workstreams, shows how far they are and tells what they gave.
func work(ctx context.Context, t *agent.Turn, args string) error {
	n, seconds, deadline, ok := workArgs(args)
	if !ok {
		return say(ctx, t, workUsage)
	}
	first, err := firstFreeNumber(ctx, t)
	if err != nil {
		return err
	}
	ids := make([]string, n)
	if err := t.Plan(ctx, planOf(n, nil)); err != nil {
		return err
	}
	for i := range ids {
		about, err := json.Marshal(map[string]job{"demo": {Part: i + 1, Of: n, Seconds: seconds}})
		if err != nil {
			return err
		}
		w, err := t.Launch(ctx, chat.Launch{
			ID: "w" + strconv.Itoa(first+i), Name: fmt.Sprintf("Part %d", i+1), Instruction: fmt.Sprintf("Do part %d of %d.", i+1, n),
			Context: about, DeadlineSeconds: deadline, Agent: t.Agent,
		})
		if err != nil {
			return err
		}
		ids[i] = w.ID
	}
	for done := 1; done <= n; done++ {
		all, err := t.AwaitSome(ctx, done, ids...)
		if err != nil {
			return err
		}
		all = asOf(done, all)
		if err := t.Batch(ctx, batchOf(t, done, all)); err != nil {
			return err
		}
		if err := t.Plan(ctx, planOf(n, all)); err != nil {
			return err
		}
	}
	all, err := t.Workstreams(ctx, ids...)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "All %d workstreams have ended.\n", n)
	for _, w := range all {
		fmt.Fprintf(&b, "\n- %s", result(&w))
	}
	return say(ctx, t, b.String())
}

func workArgs(args string) (n int, seconds, deadline float64, ok bool) {
	seconds = 2
	words := strings.Fields(args)
	if len(words) > 0 {
		if v, is := strings.CutPrefix(words[len(words)-1], "deadline="); is {
			var err error
			if deadline, err = strconv.ParseFloat(v, 64); err != nil || !(deadline >= 30 && deadline <= 1800) {
				return 0, 0, 0, false
			}
			words = words[:len(words)-1]
		}
	}
	if !numbers(strings.Join(words, " "), &n, &seconds) || n < 1 || n > 100 || !(seconds >= 0 && seconds <= 1800) {
		return 0, 0, 0, false
	}
	if deadline == 0 && seconds >= 30 {
		deadline = min(1.2*seconds, 1800) // close enough for who watches to see the first warning
	}
	return n, seconds, deadline, true
}

// firstFreeNumber returns the first number k from which on no workstream was called wk when
// the turn began: the same in every attempt.
func firstFreeNumber(ctx context.Context, t *agent.Turn) (int, error) {
	started, err := t.Started(ctx)
	if err != nil {
		return 0, err
	}
	st, err := t.State(ctx)
	if err != nil {
		return 0, err
	}
	next := 1
	for _, w := range st.Workstreams {
		digits, ok := strings.CutPrefix(w.ID, "w")
		if k, err := strconv.Atoi(digits); ok && err == nil && k > 0 && k < math.MaxInt32 && w.Sequence < started.Seq {
			next = max(next, k+1)
		}
	}
	return next, nil
}

// result says in a line what became of a workstream.
func result(w *chat.WorkstreamStatus) string {
	switch {
	case w.State == chat.WorkCompleted:
		return w.ID + ": " + w.Summary
	case w.Error != "":
		return w.ID + " " + w.State + ": " + w.Error
	case w.State == chat.WorkTimeout:
		return w.ID + " ran out of time"
	}
	return w.ID + " " + w.State
}

// asOf is how things stood when so many had ended. Several may end at once, but
// every end is told by itself: what was told is the same after a restart.
func asOf(done int, all []chat.WorkstreamStatus) []chat.WorkstreamStatus {
	all = slices.Clone(all)
	var ended []*chat.WorkstreamStatus
	for i := range all {
		if all[i].EndedAt != 0 {
			ended = append(ended, &all[i])
		}
	}
	slices.SortStableFunc(ended, func(a, b *chat.WorkstreamStatus) int { return cmp.Compare(a.EndedAt, b.EndedAt) })
	for _, w := range ended[min(done, len(ended)):] {
		w.EndedAt, w.State, w.Phase = 0, chat.WorkRunning, chat.PhaseSynthesizing
	}
	return all
}

func planOf(n int, all []chat.WorkstreamStatus) chat.AgentPlan {
	var p chat.AgentPlan
	for i := range n {
		task := chat.Task{ID: strconv.Itoa(i + 1), Title: fmt.Sprintf("Part %d", i+1), Status: "in_progress"}
		if i < len(all) && all[i].EndedAt != 0 {
			if task.Status = "failed"; all[i].State == chat.WorkCompleted {
				task.Status = "done"
			}
			task.Detail = all[i].State
		}
		p.Tasks = append(p.Tasks, task)
	}
	return p
}

func batchOf(t *agent.Turn, done int, all []chat.WorkstreamStatus) chat.AgentToolProgress {
	p := chat.AgentToolProgress{
		BatchID: "work-" + t.Label(), Tool: "work", Done: int64(done), Total: int64(len(all)),
		Message: fmt.Sprintf("%d of %d workstreams have ended.", done, len(all)),
	}
	for i := range all {
		item := chat.ProgressItem{ID: all[i].ID, Status: "running", Message: all[i].Phase, DurationMS: all[i].DurationMS}
		if all[i].EndedAt != 0 {
			item.Message = all[i].State
			if item.Status = "error"; all[i].State == chat.WorkCompleted {
				item.Status = "success"
			}
		}
		p.Items = append(p.Items, item)
	}
	return p
}

// assigned returns what /work told a workstream; ok is false for other lines,
// and for turns that answer something else than the launch.
func assigned(t *agent.Turn) (j job, ok bool) {
	launch, ok := t.Assignment()
	if _, first := t.Trigger.Body.(chat.WorkstreamLaunched); !ok || !first {
		return j, false
	}
	var about struct {
		Demo *job `json:"demo"`
	}
	if json.Unmarshal(launch.Context, &about) != nil || about.Demo == nil {
		return j, false
	}
	return *about.Demo, about.Demo.Seconds >= 0 && about.Demo.Seconds <= 1800
}

// chapters is in how many pieces a workstream of /work is done. Between them it
// receives its news.
const chapters = 4

// workPart is the work of a workstream of /work: it plans, uses a tool, writes, and
// gives a file and a result. Its times count from the start of the turn, so that
// a restart does not begin again.
func workPart(ctx context.Context, t *agent.Turn, j job) error {
	started, err := t.Started(ctx)
	if err != nil {
		return err
	}
	due := func(share float64) time.Duration {
		return time.Until(started.At.Time().Add(time.Duration(share * j.Seconds * float64(time.Second))))
	}
	if err := t.Progress(ctx, chat.WorkstreamProgress{Phase: chat.PhasePlanning, Iteration: 1, Message: fmt.Sprintf("Planning part %d.", j.Part)}); err != nil {
		return err
	}
	if err := pause(ctx, due(0.1)); err != nil {
		return err
	}
	if _, err := call(ctx, t, "look_up", json.RawMessage(fmt.Sprintf(`{"part":%d}`, j.Part))); err != nil {
		return err
	}
	var notes []string
	short := false
	for c := 0; c < chapters && !short; c++ {
		message := fmt.Sprintf("Writing chapter %d of %d.", c+1, chapters)
		if err := t.Progress(ctx, chat.WorkstreamProgress{Phase: chat.PhaseSynthesizing, Iteration: c + 2, Message: message}); err != nil {
			return err
		}
		if err := chapter(ctx, t, j, c, due); err != nil {
			return err
		}
		news, err := t.News(ctx)
		if err != nil {
			return err
		}
		for _, e := range news {
			switch b := e.Body.(type) {
			case chat.WorkstreamSteered:
				short = short || b.Command == chat.SteerWrapUp && c+1 < chapters
				if b.Text != "" && b.Command != chat.SteerWrapUp {
					notes = append(notes, b.Text)
				}
			case chat.WorkstreamMessage:
				notes = append(notes, b.Text)
			}
		}
	}
	err = t.File(ctx, chat.AgentArtifact{
		ArtifactID: t.Workstream + "-result", ArtifactType: "file", Title: "result.txt", Path: "out/result.txt", MediaType: "text/plain",
	}, strings.NewReader(fmt.Sprintf("The result of part %d.\n", j.Part)))
	if err != nil && chat.CodeOf(err) != chat.Unavailable { // a server without files
		return err
	}
	end := fmt.Sprintf("Part %d of %d is done.", j.Part, j.Of)
	if short {
		end = fmt.Sprintf("Part %d of %d was wrapped up early.", j.Part, j.Of)
	}
	if len(notes) > 0 {
		end += " Noted: " + strings.Join(notes, "; ") + "."
	}
	return say(ctx, t, end)
}

// chapter streams a few words over its share of the time.
func chapter(ctx context.Context, t *agent.Turn, j job, c int, due func(share float64) time.Duration) error {
	w := t.Stream(false)
	const words = 6
	for i := range words {
		at := 0.1 + 0.85*(float64(c)+float64(i+1)/words)/chapters
		if !w.Behind() {
			if err := pause(ctx, due(at)); err != nil {
				return err
			}
		}
		word := "word" + strconv.Itoa(i+1)
		if i == 0 {
			word = fmt.Sprintf("Part %d, chapter %d: %s", j.Part, c+1, word)
		}
		if i < words-1 {
			word += " "
		}
		if err := w.Write(ctx, word); err != nil {
			return err
		}
	}
	return w.Close(ctx)
}

// answerNews answers the news of a workstream that /work does not wait for any more.
func answerNews(ctx context.Context, t *agent.Turn) error {
	text := t.Text()
	if text == "" {
		return errors.New("the demo agent does not know what woke it")
	}
	return say(ctx, t, text)
}
