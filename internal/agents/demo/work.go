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
	"github.com/parley-hq/parley/internal/sleep"
)

const workUsage = "Usage: /work N [SECONDS] [deadline=S], with N from 1 to 100, up to 1800 seconds, and a deadline from 30 to 1800."

// job is the context of a workstream of /work.
type job struct {
	Part    int     `json:"part"`
	Of      int     `json:"of"`
	Seconds float64 `json:"seconds"`
}

// work launches workstreams, shows their progress and lists their results.
func work(ctx context.Context, t *agent.Turn, args string) error {
	n, seconds, deadline, ok := workArgs(args)
	if !ok {
		return say(ctx, t, workUsage)
	}
	if err := t.Plan(ctx, planOf(n, nil)); err != nil {
		return err
	}
	ids, err := launch(ctx, t, n, func(i int) (chat.Launch, any) {
		l := chat.Launch{Name: fmt.Sprintf("Part %d", i+1), Instruction: fmt.Sprintf("Do part %d of %d.", i+1, n), DeadlineSeconds: deadline}
		return l, map[string]job{"demo": {Part: i + 1, Of: n, Seconds: seconds}}
	})
	if err != nil {
		return err
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
		deadline = min(1.2*seconds, 1800) // the first warning then comes before the end
	}
	return n, seconds, deadline, true
}

// launch launches n workstreams of this agent with the ids w1, w2 …, or later numbers when these are taken. The second
// result of each is the launch's context.
func launch(ctx context.Context, t *agent.Turn, n int, each func(i int) (chat.Launch, any)) ([]string, error) {
	first, err := firstFreeNumber(ctx, t)
	if err != nil {
		return nil, err
	}
	ids := make([]string, n)
	for i := range ids {
		l, about := each(i)
		if l.Context, err = json.Marshal(about); err != nil {
			return nil, err
		}
		l.ID, l.Agent = "w"+strconv.Itoa(first+i), t.Agent
		w, err := t.Launch(ctx, l)
		if err != nil {
			return nil, err
		}
		ids[i] = w.ID
	}
	return ids, nil
}

// launchedWith reads the context of the launch that the turn answers. It returns false for other turns.
func launchedWith(t *agent.Turn, about any) bool {
	l, ok := t.Assignment()
	_, first := t.Trigger.Body.(chat.WorkstreamLaunched)
	return ok && first && json.Unmarshal(l.Context, about) == nil
}

// firstFreeNumber returns the first number after those of the workstreams that existed when the turn began. It is the
// same in every attempt of the turn.
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

// result describes the end of a workstream in one line.
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

// asOf returns the states at the time when so many workstreams had ended. Several may end at the same time, but each end
// is reported separately, so that the reports are the same after a restart.
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

// assigned returns the job of a workstream that /work launched.
func assigned(t *agent.Turn) (j job, ok bool) {
	var about struct {
		Demo *job `json:"demo"`
	}
	if !launchedWith(t, &about) || about.Demo == nil {
		return j, false
	}
	return *about.Demo, about.Demo.Seconds >= 0 && about.Demo.Seconds <= 1800
}

// chapters is the number of parts of the work of one workstream. Between them it reads its messages.
const chapters = 4

// workPart is the work of a workstream of /work: it plans, calls a tool, writes, and publishes a file and a result. Its
// times count from the start of the turn, also after a restart.
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
	if err := sleep.For(ctx, due(0.1)); err != nil {
		return err
	}
	if _, err := call(ctx, t, "look_up", json.RawMessage(fmt.Sprintf(`{"part":%d}`, j.Part)), 0); err != nil {
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
		news, err := t.NewEvents(ctx)
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
		if !w.Replaying() {
			if err := sleep.For(ctx, due(at)); err != nil {
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

// answerNews repeats a message of a workstream that /work no longer waits for.
func answerNews(ctx context.Context, t *agent.Turn) error {
	text := t.Text()
	if text == "" {
		return errors.New("the demo agent cannot answer an event of this type")
	}
	return say(ctx, t, text)
}
