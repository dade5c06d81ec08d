package x1

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(eachPlace{m}) }

// eachPlace runs all tests against one server, and then against a node of a cluster that does not own the sessions.
type eachPlace struct{ *testing.M }

func (p eachPlace) Run() int {
	code := p.M.Run()
	if code != 0 || flag.Lookup("test.fuzz").Value.String() != "" || flag.Lookup("test.list").Value.String() != "" {
		return code
	}
	notOwner = true
	return p.M.Run()
}
