// Package terminal is the user interface of the command line: a conversation in full-screen mode ([Screen]), a conversation
// over plain lines ([Lines]), the answer to one message ([Reply]), and text that is safe to print on a terminal.
package terminal
