package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// tour shows most features in one turn, at reading speed. It continues when its questions get no answer.
func tour(ctx context.Context, t *agent.Turn, _ string) error {
	name := "demo-" + t.Label()
	parts := []func() error{
		func() error { return t.Status(ctx, "Looking around", "planning") },
		func() error { return t.Plan(ctx, tourPlan(0)) },
		func() error {
			return tell(ctx, t.Stream(false), "Welcome. Imagine that you asked **why the south lost margin last quarter**. The numbers are made up; "+
				"all else is as it would be with your own agents, and it begins with a plan.")
		},
		func() error {
			return tell(ctx, t.Think(), "Compare with the same quarter of last year, then look for costs that came only once. "+
				"What stands out can be looked into by others at the same time.")
		},
		func() error {
			_, err := call(ctx, t, "search", json.RawMessage(`{"query":"margin by region, third quarter","limit":3}`), 900*time.Millisecond)
			return err
		},
		func() error { return failing(ctx, t, "fetch_page") },
		func() error {
			return t.Artifact(ctx, chat.AgentArtifact{
				ArtifactID: name + "-table", ArtifactType: "table", Title: "Margin by region", MediaType: "application/json",
				Data: json.RawMessage(`{"columns":["Region","Margin in %","Change"],"rows":[["North",31.2,0.3],["East",28.9,-0.2],["South",24.8,-2.4],["West",29.5,0.1]]}`),
			})
		},
		func() error { return t.Plan(ctx, tourPlan(1)) },
		func() error {
			return tell(ctx, t.Stream(false), "I thought, used a tool, and one page could not be read: that is said, and I go on. The south is 2.4 points down. "+
				"Two causes stand out, so **two helpers look into them side by side**, each with a deadline of its own.")
		},
		func() error { return errands(ctx, t) },
		func() error {
			return t.Artifact(ctx, chat.AgentArtifact{
				ArtifactID: name + "-chart", ArtifactType: "chart", Title: "Points of margin lost, by cause", MediaType: "application/json",
				Data: json.RawMessage(`{"type":"bar","x":["Copper","Rush freight","Other"],"series":[{"name":"Points","values":[1.5,0.7,0.2]}]}`),
			})
		},
		func() error {
			return t.Usage(ctx, chat.AgentUsage{Model: Name, Usage: chat.Usage{InputTokens: 1280, OutputTokens: 342}})
		},
		func() error { return t.Plan(ctx, tourPlan(2)) },
		func() error {
			return tell(ctx, t.Stream(false), "Now I need you. A question waits in the log, not in this window: **reload the page, or answer from another one**.")
		},
	}
	for _, part := range parts {
		if err := part(); err != nil {
			return err
		}
	}
	chosen, err := baseline(ctx, t)
	if err != nil {
		return err
	}
	if err := t.Plan(ctx, tourPlan(3)); err != nil {
		return err
	}
	became, err := sendSummary(ctx, t)
	if err != nil {
		return err
	}
	if err := t.Plan(ctx, tourPlan(4)); err != nil {
		return err
	}
	return tell(ctx, t.Stream(true), chosen+" "+became+`

That was the tour. What you saw an agent do here:

1. show a plan, and how far it is
2. think, and use tools that work or fail
3. publish a table and a chart
4. let others work at the same time
5. ask a question, and ask before it acts

All of it is in the log. Reload the page: nothing is lost, nothing is doubled. To see more, type `+"`/work 8 30`, `/artifact html` or `/help`.")
}

// tourPlan is the plan of the tour with so many of its tasks done.
func tourPlan(done int) chat.AgentPlan {
	return planWith([]string{"Look at the numbers", "Find the causes", "Settle the baseline with you", "Send the summary"}, done)
}

// tell writes a text at reading speed.
func tell(ctx context.Context, w *agent.Writer, text string) error {
	return write(ctx, w, text, 8, 50*time.Millisecond)
}

// errand is the task of a workstream of the tour.
type errand struct {
	name, instruction, finding string
	took                       time.Duration
}

var tourErrands = []errand{
	{"Copper", "Find out what copper cost the south.", "Copper is up **11 %** since June. At the volume of the south that is 1.5 points of margin.", 1600 * time.Millisecond},
	{"Freight", "Find out what freight cost the south.", "Rush freight for one recall cost 0.7 points. It came **once** and is not in this quarter.", 2300 * time.Millisecond},
}

// errands launches all errands at the same time and waits until they end.
func errands(ctx context.Context, t *agent.Turn) error {
	ids, err := launch(ctx, t, len(tourErrands), func(i int) (chat.Launch, any) {
		e := tourErrands[i]
		return chat.Launch{Name: e.name, Instruction: e.instruction, DeadlineSeconds: 30}, map[string]int{"errand": i + 1}
	})
	if err == nil {
		_, err = t.Await(ctx, ids...)
	}
	return err
}

// errandOf returns the errand of a workstream that the tour launched.
func errandOf(t *agent.Turn) (e errand, ok bool) {
	var about struct {
		Errand int `json:"errand"`
	}
	if !launchedWith(t, &about) || about.Errand < 1 || about.Errand > len(tourErrands) {
		return e, false
	}
	return tourErrands[about.Errand-1], true
}

// run calls a tool and then writes the finding.
func (e errand) run(ctx context.Context, t *agent.Turn) error {
	if err := t.Progress(ctx, chat.WorkstreamProgress{Phase: chat.PhaseTool, Iteration: 1, Message: "Looking it up."}); err != nil {
		return err
	}
	if _, err := call(ctx, t, "look_up", json.RawMessage(fmt.Sprintf(`{"about":%q}`, e.name)), e.took); err != nil {
		return err
	}
	if err := t.Progress(ctx, chat.WorkstreamProgress{Phase: chat.PhaseSynthesizing, Iteration: 2, Message: "Writing down what it found."}); err != nil {
		return err
	}
	return tell(ctx, t.Stream(true), e.finding)
}

// tourTimeout is how many seconds the tour waits for an answer.
const tourTimeout = 180

// baseline asks which numbers to compare with, and says what was chosen.
func baseline(ctx context.Context, t *agent.Turn) (string, error) {
	options := []chat.Option{
		{ID: "last_year", Label: "Same quarter of last year", Value: "last_year", Description: "Takes the season out"},
		{ID: "last_quarter", Label: "Previous quarter", Value: "last_quarter", Description: "Shows the latest turn"},
		{ID: "plan", Label: "The plan", Value: "plan", Description: "Shows what was promised"},
	}
	answer, err := t.Ask(ctx, chat.AgentInputRequest{
		InputType: chat.InputRadio, Text: "Which baseline should the summary use?", Options: options, Timeout: tourTimeout, Error: "The tour went on without an answer.",
	})
	switch {
	case errors.Is(err, agent.ErrExpired):
		return "Nobody chose a baseline in time, which is fine too.", nil
	case err != nil:
		return "", err
	}
	chosen := answerText(answer)
	for _, o := range options {
		if o.Value == chosen {
			chosen = o.Label
		}
	}
	return "You chose **" + chosen + "**.", nil
}

// sendSummary asks before it sends the summary, and says the result.
func sendSummary(ctx context.Context, t *agent.Turn) (string, error) {
	params := json.RawMessage(`{"to":"finance@example.com","subject":"South region, third quarter","attach_chart":true}`)
	id := "c" + t.Label() + "-send"
	decisions, err := t.Approve(ctx, chat.AgentApprovalRequest{
		Text: "May I send the summary? You can change what I would send.", Timeout: tourTimeout,
		Calls: []chat.ApprovalCall{{CallID: id, Tool: "send_mail", Params: params, Risk: "low"}},
	})
	switch {
	case errors.Is(err, agent.ErrExpired):
		return "Without your word I sent nothing.", nil
	case err != nil:
		return "", err
	case !decisions[0].Approve:
		return "You said no, so I sent nothing.", nil
	}
	if changed := decisions[0].Params; len(changed) > 0 {
		params = changed
	}
	_, err = t.Call(ctx, "send_mail", params, agent.CallOptions{CallID: id, Repeatable: true}, func(context.Context) (json.RawMessage, error) {
		return json.RawMessage(`{"sent":true}`), nil
	})
	return "With your approval the summary went out (not really: this is a demo).", err
}
