// Package aisdk serves pages that are built with the AI SDK of Vercel (npm package ai, versions 5 to 7): useChat and
// assistant-ui over DefaultChatTransport, WorkflowChatTransport and WebSocketChatTransport. The protocol is the "UI message
// stream": a response is a list of chunks that the page folds into one assistant message. It is published at
// https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol.
//
// # Chats, messages and segments
//
// A chat is a session; the id of the chat is the owner's name for it. An assistant message is a turn. Two things cut a turn:
//
//   - A prompt ends the response, because a page can answer only when no response is open. The response to the answer
//     continues the same message. The pieces are the segments of a message.
//   - A message of the page that the running turn takes up, or that answers a question, begins another assistant message
//     behind it.
//
// A [run] turns the entries of a turn into chunks. It depends on the log alone, so chunk N of a segment is the same for every
// reader, also after a restart: clients resume by counting. The id of a segment (the "run id" of WorkflowChatTransport) is the
// id of its message; from the second segment on, a dot and the index of the segment follow.
//
// # What a page sends
//
// A request repeats the whole conversation as the page has it. Only the last message is read, and an assistant message
// directly before it: a user message is sent, an assistant message is searched for answers to prompts that are open in the log.
// Everything else is ignored.
//
// # What is not offered
//
// The text stream protocol, useCompletion and useObject; the data stream protocol of version 4. A response that has to end
// early is broken off, never ended: the clients take a proper end for success.
package aisdk
