// Package agent is what an agent in Go is written against.
//
// An Agent answers turns. A turn begins with a trigger, usually a user message, and the agent answers it through a
// [Turn]: it streams text, calls tools, asks people, launches workstreams. The same agent runs in the process of the
// server or as a worker that connects to it with package client:
//
//	echo := agent.Func(func(ctx context.Context, turn *agent.Turn) error {
//		w := turn.Stream(true)
//		if err := w.Write(ctx, "You said: "+turn.Text()); err != nil {
//			return err
//		}
//		return w.Close(ctx)
//	})
//	err := c.Work(ctx, "echo", client.WorkOptions{}, echo)
//
// # Calls of a turn
//
//   - show text: [Turn.Stream], [Turn.Think], [Turn.Say]
//   - use a tool: [Turn.Call]
//   - ask a person and wait: [Turn.Ask], [Turn.Approve], [Turn.Permit]
//   - report: [Turn.Status], [Turn.Plan], [Turn.Usage], [Turn.Artifact], [Turn.File], [Turn.Append]
//   - delegate: [Turn.Launch], [Turn.Await], [Turn.Message], [Turn.Steer], [Turn.Terminate], [Turn.Workstreams]
//   - receive what arrived during the turn: [Turn.NewMessages], [Turn.NewEvents]
//   - read the session: [Turn.Read], [Turn.Log], [Turn.State]
//
// # How a turn ends
//
//   - Answer returns nil: the turn is done.
//   - Answer returns an error: the turn failed. The text of the error is shown. [Failf] adds a code for programs.
//   - A person stops the turn: the context ends and [Stopped] reports true. What was shown stays. The agent may
//     store a last event, with [context.WithoutCancel].
//   - The process or the connection ends: the turn continues in a new attempt.
//
// # Attempts
//
// Every call of a turn is a numbered step with an idempotency key. When an attempt is interrupted, the agent is called
// again with the same turn. Steps that the log has return their stored result and are not executed again, so the agent
// must make the same calls in the same order in every attempt, from one goroutine ([Turn.Part] gives other goroutines a
// numbering of their own). A tool call without a result is executed again only if it is marked as repeatable. Shown
// text is neither removed nor repeated: if an attempt writes the same text, it continues where the last one ended; if it
// writes something else, it begins a new block and the old one stays as it was shown.
//
// # Transports
//
// A [Transport] connects a Turn to its session. There are two: internal/agentpool for agents in the process of the
// server, and package client for workers. Agents do not use it.
package agent
