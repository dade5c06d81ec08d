package main

import (
	"github.com/parley-hq/parley/client"
)

// serverFlags are the flags of commands that call a server.
type serverFlags struct {
	URL   string `help:"Address of the server, or of the nodes of a cluster with commas between; default ${url}." env:"PARLEY_URL" default:"${url}" placeholder:"URL"`
	Token string `help:"Token for the server." env:"PARLEY_TOKEN" placeholder:"TOKEN" secret:""`
}

// client returns a client that does not repeat failed calls, so that a person gets the error at once.
func (f serverFlags) client() (*client.Client, error) { return f.connect(0) }

// connect returns a client that repeats a failed call so many times.
func (f serverFlags) connect(retries int) (*client.Client, error) {
	if retries == 0 {
		retries = -1
	}
	return client.New(client.Options{URL: f.URL, Token: f.Token, Retries: retries})
}
