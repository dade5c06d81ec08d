package main

import (
	"github.com/parley-hq/parley/client"
)

// remote is how a command reaches the server.
type remote struct {
	URL   string `help:"Address of the server; ${url} when it is not given." env:"PARLEY_URL" default:"${url}" placeholder:"URL"`
	Token string `help:"Token to show to the server." env:"PARLEY_TOKEN" placeholder:"TOKEN"`
}

func (r remote) client() (*client.Client, error) { return r.connect(0) }

// connect returns a client that repeats a failed call so many times; a person
// who waits at a prompt wants to know soon.
func (r remote) connect(retries int) (*client.Client, error) {
	if retries == 0 {
		retries = -1
	}
	return client.New(client.Options{URL: r.URL, Token: r.Token, Retries: retries})
}
