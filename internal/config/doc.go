// Package config reads parley.yaml: the agents of a server.
//
// [Load] returns a [File] with its agents. An [Agent] has the fields that all kinds of
// agents share; [Agent.Decode] reads the fields of its kind into a struct of the package
// that creates agents of that kind. [Agent.Source] is the text of the entry: an agent whose
// source has not changed is not created again at a reload.
//
// Every error is an [Error] with file, line and field. An unknown field is an error.
//
// Secrets are not in the file: it names environment variables or files, and [Secret]
// reads them when they are needed. [Own] reports whether a file belongs to the user, so
// that a server does not run programs from a configuration that others can write.
//
// A File does not change after it was read and may be used from any goroutine.
package config
