package chat

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the expected values of the fold vectors anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
