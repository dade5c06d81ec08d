// Package replay is an agent that answers with the turns of a recorded session, for demonstrations and tests without a
// model. Texts, tool calls, prompts, artifacts and workstreams are played at the speed of the recording.
package replay
