package commandline

import (
	"bytes"
	"strings"
	"testing"
)

const helpOfProgram = `Usage: prog <command>

A program.

It has two paragraphs.

Commands:
  run           Run it.
  send          Send words.
  node show     Show a node.
  node drain    Drain a node.

Flags:
  -h, --help    Show this help.

Run "prog <command> --help" for more information on a command.
`

const helpOfRun = `Usage: prog run [flags]

Run it.

Flags:
  -h, --help                    Show this help.

      --addr="127.0.0.1:1"      Where to listen ($TEST_ADDR).
      --data="./data"           Data folder ($TEST_DATA).
      --models=KEY=VALUE;...    Models ($TEST_MODELS).
      --wait=1s                 How long ($TEST_WAIT).
  -n, --limit=50                How many.
      --max-size=1024           How large.
      --rate=0.5                How fast.
  -f, --follow                  Go on ($TEST_FOLLOW).
      --json                    As JSON.

Details
  --level="low"        How much ($TEST_LEVEL).
  --parts=a,b,...      Which parts.
  --hosts=HOSTS,...    Names of the server ($TEST_HOSTS).
`

const helpOfSend = `Usage: prog send --as-user=NAME <session> <text> ... [flags]

Send words.

Arguments:
  <session>     The session.
  <text> ...    The words.

Flags:
  -h, --help            Show this help.

      --url=URL         Address of the
                        server; default
                        http://localhost
                        ($TEST_URL).
      --token=STRING    Token ($TEST_TOKEN,
                        $TEST_TOKEN_2).
      --as-user=NAME    Who sends it.
`

const helpOfShow = `Usage: prog node show [<file>] [flags]

Show a node.

Arguments:
  [<file>]    The file; - is standard input ($TEST_FILE).

Flags:
  -h, --help            Show this help.

      --url=URL         Address of the server; default http://localhost ($TEST_URL).
      --token=STRING    Token ($TEST_TOKEN, $TEST_TOKEN_2).
  -q, --quiet           Print less.
`

func TestHelp(t *testing.T) {
	for _, c := range []struct{ args, columns, want string }{
		{"--help", "", helpOfProgram},
		{"-h", "80", helpOfProgram},
		{"run --help", "80", helpOfRun},
		{"--help run --limit 5", "80", helpOfRun},
		{"send -h", "44", helpOfSend}, // also without what is required
		{"node show -qh", "100", helpOfShow},
	} {
		t.Setenv("COLUMNS", c.columns)
		t.Setenv("TEST_WAIT", "x") // is not read for help
		call := parse(t, strings.Fields(c.args)...)
		var got bytes.Buffer
		if err := call.WriteHelp(&got); err != nil || !call.Help {
			t.Fatal(err, call.Help)
		}
		if got.String() != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.args, got.String(), c.want)
		}
	}
}

// A name that is too wide for its column has a line of its own.
func TestHelpOfLongFlag(t *testing.T) {
	var commands struct {
		Run struct {
			AllowOrigin []string `help:"Origin of pages." name:"allow-origin-of-pages-elsewhere"`
			OtherPlace  string   `help:"It fits." placeholder:"FOLDER"`
			X           bool     `help:"Short."`
		} `cmd:"" help:"Run."`
	}
	t.Setenv("COLUMNS", "60")
	call, err := testApp.Parse(&commands, []string{"run", "--help"})
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	call.WriteHelp(&got)
	want := `
      --allow-origin-of-pages-elsewhere=ALLOW-ORIGIN-OF-PAGES-ELSEWHERE,...
                              Origin of pages.
      --other-place=FOLDER    It fits.
      --x                     Short.
`
	if !strings.HasSuffix(got.String(), want) {
		t.Errorf("got\n%s\nwant at its end\n%s", got.String(), want)
	}
}
