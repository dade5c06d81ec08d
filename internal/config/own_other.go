//go:build !unix

package config

// Own reports why a file is not the user's own. Here the system does not say.
func Own(string) error { return nil }
